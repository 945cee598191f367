"""CIFAR-10 (6/4) as in IOMatch: 25 labels a class, all other images, SGD, RandAugment.

    python main.py --config=configs/cifar10_iomatch.py:iomatch

The protocol that newer rivals are published in, not the paper's. Published by DAC's
authors, accuracy on ID classes / balanced accuracy over C + 1, three seeds:

    fixmatch  92.4 / –       softmatch  90.5 / –       openmatch  61.8 / 19.8
    ssb       90.6 / 72.6    iomatch    93.4 / 79.0    dac        93.3 / 75.1

2^18 steps of 64 + 448 images: eight times as many images as in `cifar10.py`. It has not
been run with this code.
"""

from upsilon_jax.config import load_config

_EPOCHS = 2341  # of 112 steps: 2^18 in all
_LONG_EPOCH = 9  # theirs has 1,024 steps


def get_config(method: str = "iomatch"):
    """IOMatch's setting; D_u is what the labels leave, two fifths of it foreign."""
    config = load_config("cifar10", method)
    config.data.update(
        labels_per_class=25,
        num_unlabeled=0,
        mismatch=0.4,
        augmentation="randaug",
        unlabeled_ratio=7,
    )
    config.train.update(
        batch_size=64,
        epochs=_EPOCHS,
        optimizer="sgd",
        learning_rate=0.03,
        lr_schedule="cosine",
        weight_decay=5e-4,
        save_epochs=_LONG_EPOCH,
    )
    if config.train.pretrain_epochs:  # an eighth, as in the paper
        config.train.pretrain_epochs = _EPOCHS // 8
    if "start_epochs" in config.method:
        config.method.start_epochs *= _LONG_EPOCH
    if "labeled_view" in config.method:
        config.method.labeled_view = "weak"
    return config
