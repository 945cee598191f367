"""CIFAR-10 (6/4): six animals are ID, four vehicles are OOD (paper §5, Table 3).

    python main.py --config=configs/cifar10.py:upsilon --config.data.mismatch=0.5

Published, at 0 / 25 / 50 / 75 / 100 % mismatch, mean of five runs:

    upsilon   78.98  78.93  77.78  77.90  78.50        pl  78.23 76.50 75.85 74.60 73.97
    baseline  76.21

62,800 steps of 128 + 128 images: hours on one GPU, weeks on a CPU.
"""

from upsilon_jax.config import default_config, with_method


def get_config(method: str = "upsilon"):
    """The paper's setting; appendix E has the hyperparameters."""
    config = default_config()
    config.data.update(
        name="cifar10",
        id_classes=("bird", "cat", "deer", "dog", "frog", "horse"),
        ood_classes=("airplane", "automobile", "ship", "truck"),
        labels_per_class=400,
        num_unlabeled=20_000,
    )
    return with_method(
        config,
        method,
        pseudo_label=dict(threshold=0.95, ood_threshold=0.3, num_clusters=4),
    )
