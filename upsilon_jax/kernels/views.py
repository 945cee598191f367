"""What "weak" and "strong" mean under each `data.augmentation`.

Losses of unlabeled images are computed on the strong view, and the weak one is for
making targets; of labeled images a method says which it takes. In the paper's own
setting both are the same augmentation, drawn independently.
"""

from collections.abc import Mapping

# data.augmentation -> view -> a key of `augment.AUGMENTATIONS`
VIEWS: Mapping[str, Mapping[str, str]] = {
    "paper": {"weak": "paper", "strong": "paper"},
    "randaug": {"weak": "weak", "strong": "randaug"},
    "weak": {"weak": "weak", "strong": "weak"},
    "none": {"weak": "none", "strong": "none"},
}
