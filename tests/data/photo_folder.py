"""A folder of small photos, for tests of the source that reads it."""

import numpy as np
from PIL import Image

from upsilon_jax.data import load_source
from upsilon_jax.data.source import UNKNOWN

SIZE = 16


def picture(seed, size=(SIZE, SIZE)):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


def noise(seed):
    """Pixels [SIZE, SIZE, 3] of `picture`."""
    return np.asarray(picture(seed))


def load(dirs, **changes):
    options = {
        "labeled": str(dirs / "labeled"),
        "unlabeled": str(dirs / "unlabeled"),
        "test": str(dirs / "test"),
        "image_size": SIZE,
    }
    return load_source("folder", **(options | changes))


def unlabeled_pixels(source):
    return source.read("train", np.flatnonzero(source.train_labels == UNKNOWN))


def holds(source, pixels, tolerance=0):
    """Whether an unlabeled image is this one."""
    difference = np.abs(unlabeled_pixels(source).astype(int) - pixels.astype(int))
    return bool((difference.max((1, 2, 3)) <= tolerance).any())
