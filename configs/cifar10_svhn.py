"""Six random classes of CIFAR-10 are ID, four of SVHN are OOD (appendix C.2).

    python main.py --config=configs/cifar10_svhn.py:baseline --config.seed=7

The classes are drawn by the seed. Published: a figure without numbers, of how balanced
pseudo-labels are on ID and on OOD images. 62,800 steps, as CIFAR-10.
"""

from upsilon_jax.config import load_config


def get_config(method: str = "upsilon"):
    """CIFAR-10's setting on the union of both data sets."""
    config = load_config("cifar10", method)
    config.data.update(
        name="cifar10_svhn",
        id_classes=("random:6:cifar10/",),
        ood_classes=("random:4:svhn/",),
    )
    return config
