"""What "weak" and "strong" mean under each `data.augmentation`.

Losses are computed on the strong view; the weak one is for making targets. In the
paper's own setting both are the same augmentation, drawn independently.
"""

from collections.abc import Mapping

# data.augmentation -> view -> a key of `augment.AUGMENTATIONS`
VIEWS: Mapping[str, Mapping[str, str]] = {
    "paper": {"weak": "paper", "strong": "paper"},
    "randaug": {"weak": "weak", "strong": "randaug"},
    "weak": {"weak": "weak", "strong": "weak"},
    "none": {"weak": "none", "strong": "none"},
}
