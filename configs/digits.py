"""Handwritten digits, 6 ID / 4 OOD classes: a small stand-in for SVHN (6/4).

The package carries the 1,797 images of 8×8 pixels, so nothing is downloaded:

    python main.py --config=configs/digits.py:upsilon

About a minute on two CPU cores. No published numbers; docs/reproduction.md has ours.
"""

from upsilon_jax.config import default_config, with_method


def get_config(method: str = "upsilon"):
    """Five labels per class; half of the unlabeled images are of foreign digits."""
    config = default_config()
    config.data.update(
        name="digits",
        id_classes=tuple("012345"),
        ood_classes=tuple("6789"),
        labels_per_class=5,
        num_unlabeled=400,
        mismatch=0.5,
        flip=False,  # a mirrored digit is no digit
    )
    config.model.update(depth=10, width=2, bn_decay=0.95)
    config.train.update(
        epochs=60,
        pretrain_epochs=20,
        batch_size=32,
        ema_decay=0.99,
        report_epochs=5,
        save_epochs=5,
    )
    return with_method(config, method)
