"""Handwritten digits of 8×8 pixels: a data set that needs no download.

`digits.npz` holds the 1,797 images that scikit-learn also carries, the test part of
"Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, UCI Machine Learning
Repository, CC BY 4.0).
"""

from __future__ import annotations

import importlib.resources

import numpy as np

from upsilon_jax.data import images
from upsilon_jax.data.source import Source, channel_statistics, in_memory_reader

# The images are in the order of the people who wrote them, so the cut makes the test
# images the handwriting of writers that training has not seen.
NUM_TRAIN = 1200

IMAGE_SHAPE = (8, 8, 1)
_MAX_VALUE = 16  # pixels are counts of set bits in 4×4 blocks


def load(
    *,
    data_dir: str | None = None,
    image_size: int | None = None,
    resident: bool | None = None,
) -> Source:
    """The first 1,200 digits in file order to train on, the other 597 to test on."""
    del data_dir, resident  # the images come with the package, all 115 kB of them
    file = importlib.resources.files(__package__) / "digits.npz"
    with file.open("rb") as opened, np.load(opened) as arrays:
        values, labels = arrays["pixels"], arrays["labels"].astype(np.int32)
    pixels = np.round(values[..., None] * (255 / _MAX_VALUE)).astype(np.uint8)
    if image_size is not None:
        pixels = images.resize(pixels, image_size)
    read = in_memory_reader(pixels[:NUM_TRAIN], pixels[NUM_TRAIN:])
    mean, std = channel_statistics(read, np.arange(NUM_TRAIN))
    return Source(
        name="digits",
        class_names=tuple(str(digit) for digit in range(10)),
        train_labels=labels[:NUM_TRAIN],
        test_labels=labels[NUM_TRAIN:],
        image_shape=pixels.shape[1:],
        mean=mean,
        std=std,
        read=read,
    )
