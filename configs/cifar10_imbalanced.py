"""CIFAR-10 (6/4) with long-tailed OOD classes, ratio 10 (paper Table 4).

    python main.py --config=configs/cifar10_imbalanced.py:upsilon

Published, at 25 / 50 / 75 / 100 % mismatch:

    upsilon   77.57  77.42  77.13  77.26               pl  76.42 75.78 74.58 73.33

There are at most 8,897 OOD images with such a tail, so D_u shrinks to 17,794 / 11,862 /
8,897 at 50 / 75 / 100 % and the mismatch stays exact. At most 62,800 steps.
"""

from upsilon_jax.config import load_config


def get_config(method: str = "upsilon"):
    """CIFAR-10's setting with 1 : 0.464 : 0.215 : 0.1 OOD images."""
    config = load_config("cifar10", method)
    config.data.ood_imbalance = 10.0
    return config
