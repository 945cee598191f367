"""CIFAR-100 (50/50): classes 0-49 are ID, 50-99 are OOD (paper §5, Table 2).

    python main.py --config=configs/cifar100.py:upsilon --config.data.mismatch=0.5

Published, at 0 / 25 / 50 / 75 / 100 % mismatch, mean of five runs:

    upsilon   62.10  61.26  60.68  60.12  59.46        pl  61.68 60.20 60.12 57.79 57.62
    baseline  58.68

62,800 steps of 128 + 128 images: hours on one GPU, weeks on a CPU.
"""

from upsilon_jax.config import default_config, with_method


def get_config(method: str = "upsilon"):
    """The paper's setting; appendix E has the hyperparameters."""
    config = default_config()
    config.data.update(
        name="cifar100",
        id_classes=tuple(str(number) for number in range(50)),
        ood_classes=("rest",),
        labels_per_class=100,
        num_unlabeled=20_000,
    )
    return with_method(
        config,
        method,
        pseudo_label=dict(
            threshold=0.95, ood_threshold=0.18, num_clusters=20, ramp_steps=40_000
        ),
        mixmatch=dict(loss_weight=150.0),
        openmatch=dict(consistency_weight=1.0),
        ssb=dict(consistency_weight=1.0),
        iomatch=dict(align_batches=128),
    )
