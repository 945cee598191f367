"""CIFAR-10 (6/4) small enough for a desk: 16×16 pixels, a WRN-10-1, 60 epochs.

    python main.py --config=configs/cifar10_desk.py:upsilon

Minutes on one CPU core: 4,740 steps of 128 + 128 images. τ, γ, K and the number of
labels are the paper's. A quarter of the run is pre-training (there an eighth), and the
averages are shorter. No published numbers belong to it.
"""

from upsilon_jax.config import load_config


def get_config(method: str = "upsilon"):
    """CIFAR-10's setting with a thirteenth of its steps."""
    config = load_config("cifar10", method)
    config.data.update(image_size=16, num_unlabeled=10_000, mismatch=1.0)
    config.model.update(depth=10, width=1, bn_decay=0.99)
    config.train.update(epochs=60, ema_decay=0.998, report_epochs=3, save_epochs=20)
    if config.train.pretrain_epochs:
        config.train.pretrain_epochs = 15
    return config
