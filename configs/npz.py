"""Your own images as a NumPy file: x_train, y_train, x_test, y_test, x_unlabeled.

    python main.py --config=configs/npz.py --config.data.path=FILE.npz

Images are uint8 [n, H, W] or [n, H, W, 1 or 3], labels are integers, `class_names` is
optional text. Nothing is ever unpickled. It prints what it has chosen from the images
(batch, epochs, K, γ), its progress, and the accuracy on x_test.

A file without x_unlabeled is split as the benchmarks are; say how:

    --config.data.labels_per_class=20 --config.data.mismatch=0.5
    --config.data.id_classes="('0','1','2')" --config.data.ood_classes="('rest',)"

Settings and cost are those of configs/folder.py.
"""

from upsilon_jax.config import own_data_config


def get_config(method: str = "upsilon"):
    """Fields that are None are chosen from the data; each can be given instead."""
    config = own_data_config("npz", method)
    config.data.id_classes = ("all",)  # of a file without x_unlabeled: which to learn
    return config
