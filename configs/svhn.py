"""SVHN (6/4): the digits 0-5 are ID, 6-9 are OOD (paper §5, Fig. 6).

    python main.py --config=configs/svhn.py:upsilon --config.data.mismatch=0.5

Published: baseline 88.33; curves of the other methods, without numbers. 62,800 steps of
128 + 128 images: hours on one GPU, weeks on a CPU.
"""

from upsilon_jax.config import default_config, with_method


def get_config(method: str = "upsilon"):
    """The paper's setting; appendix E has the hyperparameters."""
    config = default_config()
    config.data.update(
        name="svhn",
        id_classes=tuple("012345"),
        ood_classes=tuple("6789"),
        labels_per_class=100,
        num_unlabeled=20_000,
    )
    return with_method(
        config,
        method,
        pseudo_label=dict(threshold=0.95, ood_threshold=0.3, num_clusters=4),
        vat=dict(radius=1.0),
        mixmatch=dict(loss_weight=250.0),
    )
