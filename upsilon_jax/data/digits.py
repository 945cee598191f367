"""The 8×8 digits that come with scikit-learn: a data set that needs no download."""

from __future__ import annotations

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
    in_memory: bool | None = None,
) -> Source:
    """The first 1,200 digits in file order to train on, the other 597 to test on."""
    del data_dir, in_memory  # the images are inside scikit-learn, all 115 kB of them
    from sklearn.datasets import load_digits

    data = load_digits()
    pixels = np.round(data.images * (255 / _MAX_VALUE)).astype(np.uint8)[..., None]
    if image_size is not None:
        pixels = images.resize(pixels, image_size)
    labels = data.target.astype(np.int32)
    read = in_memory_reader(pixels[:NUM_TRAIN], pixels[NUM_TRAIN:])
    mean, std = channel_statistics(read, np.arange(NUM_TRAIN))
    return Source(
        name="digits",
        class_names=tuple(str(name) for name in data.target_names),
        train_labels=labels[:NUM_TRAIN],
        test_labels=labels[NUM_TRAIN:],
        image_shape=pixels.shape[1:],
        mean=mean,
        std=std,
        read=read,
    )
