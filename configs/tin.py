"""Tiny ImageNet (100/100), 64×64: the first 100 wnids are ID (paper §5, Table 2).

    python main.py --config=configs/tin.py:upsilon --config.data.mismatch=0.5

Published, at 0 / 25 / 50 / 75 / 100 % mismatch, mean of five runs:

    upsilon   44.42  43.48  42.42  43.22  41.76        pl  43.42 42.88 41.94 39.72 38.94
    baseline  39.66

125,200 steps of 128 + 128 images of 64×64: a day on one GPU, months on a CPU.
"""

from upsilon_jax.config import default_config, with_method


def get_config(method: str = "upsilon"):
    """The paper's setting; appendix E has the hyperparameters."""
    config = default_config()
    config.data.update(
        name="tiny_imagenet",
        id_classes=tuple(str(number) for number in range(100)),
        ood_classes=("rest",),
        labels_per_class=100,
        num_unlabeled=40_000,
    )
    return with_method(
        config,
        method,
        pseudo_label=dict(
            threshold=0.9, ood_threshold=0.15, num_clusters=20, ramp_steps=40_000
        ),
    )
