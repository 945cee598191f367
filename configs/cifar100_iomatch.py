"""CIFAR-100 (50/50) as in IOMatch: 25 labels a class, all other images, RandAugment.

    python main.py --config=configs/cifar100_iomatch.py:iomatch

The protocol of `cifar10_iomatch.py`. Published by DAC's authors, accuracy on ID
classes / balanced accuracy over C + 1, three seeds:

    fixmatch  69.9 / –       softmatch  68.6 / –       openmatch  68.0 / 54.1
    ssb       67.9 / 62.5    iomatch    69.9 / 61.6    dac        71.1 / 66.5

2^18 steps of 64 + 448 images. It has not been run with this code.
"""

from upsilon_jax.config import load_config

_EPOCHS = 2405  # of 109 steps: 2^18 in all


def get_config(method: str = "iomatch"):
    """IOMatch's setting; D_u is what the labels leave, 25,000 of it foreign."""
    config = load_config("cifar100", method)
    protocol = load_config("cifar10_iomatch", method)
    for field in (
        "labels_per_class",
        "num_unlabeled",
        "augmentation",
        "unlabeled_ratio",
    ):
        config.data[field] = protocol.data[field]
    config.data.mismatch = 20 / 39
    config.train = protocol.train
    config.train.update(epochs=_EPOCHS, weight_decay=1e-3)
    if config.train.pretrain_epochs:  # an eighth, as in the paper
        config.train.pretrain_epochs = _EPOCHS // 8
    for field in ("start_epochs", "labeled_view"):
        if field in config.method:
            config.method[field] = protocol.method[field]
    return config
