"""The 8×8 digits that come with scikit-learn: a data set that needs no download."""

from __future__ import annotations

import importlib.util
import pathlib

import numpy as np

from upsilon_jax.data import images
from upsilon_jax.data.source import Source, channel_statistics, in_memory_reader

# scikit-learn keeps the 1,797 images in the order of the people who wrote them, so the
# cut makes the test images the handwriting of writers that training has not seen.
NUM_TRAIN = 1200

_MAX_VALUE = 16  # pixels are counts of set bits in 4×4 blocks


def load(
    *,
    data_dir: str | None = None,
    image_size: int | None = None,
    resident: bool | None = None,
) -> Source:
    """The first 1,200 digits in file order to train on, the other 597 to test on."""
    del data_dir, resident  # the images are inside scikit-learn, all 115 kB of them
    values, labels = np.split(_table(), [-1], axis=1)
    pixels = np.round(values * (255 / _MAX_VALUE)).astype(np.uint8)
    pixels = pixels.reshape(-1, 8, 8, 1)
    if image_size is not None:
        pixels = images.resize(pixels, image_size)
    labels = labels[:, 0].astype(np.int32)
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


def _table() -> np.ndarray:
    """[1797, 65] pixels and label; importing scikit-learn would take a second."""
    package = importlib.util.find_spec("sklearn").submodule_search_locations[0]
    path = pathlib.Path(package, "datasets", "data", "digits.csv.gz")
    return np.loadtxt(path, delimiter=",")
