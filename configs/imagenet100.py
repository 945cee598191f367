"""ImageNet100 (50/50) at 64×64 (paper §5, Table 2).

    python main.py --config=configs/imagenet100.py:upsilon --config.data.mismatch=0.5

Published, at 0 / 25 / 50 / 75 / 100 % mismatch, mean of five runs:

    upsilon   50.6   49.78  48.88  48.36  47.64        pl  50.04 49.32 48.36 47.40 46.96
    baseline  48.12

Not comparable digit by digit: the paper names neither its 100 classes nor the image
size. Here they are the list of Contrastive Multiview Coding, in the order of their
wnids, at 64×64. 62,800 steps of 128 + 128 images of 64×64: most of a day on one GPU.
"""

from upsilon_jax.config import default_config, with_method


def get_config(method: str = "upsilon"):
    """The paper's setting; appendix E has the hyperparameters."""
    config = default_config()
    config.data.update(
        name="imagenet100",
        id_classes=tuple(str(number) for number in range(50)),
        ood_classes=("rest",),
        labels_per_class=100,
        num_unlabeled=20_000,
        image_size=64,
    )
    return with_method(
        config,
        method,
        pseudo_label=dict(
            threshold=0.9, ood_threshold=0.2, num_clusters=20, ramp_steps=40_000
        ),
    )
