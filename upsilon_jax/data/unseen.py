"""Foreign images from elsewhere: of no class of the data, and never in D_u.

They are for one question at the end of a run, whether ID confidence also tells what the
network has never met. Nothing is trained on them.
"""

from __future__ import annotations

import math

import numpy as np

from upsilon_jax.data.images import FITS
from upsilon_jax.data.photos import from_array
from upsilon_jax.data.samplers import permutation, random_bits
from upsilon_jax.data.source import OWN_FIELDS, SOURCES, Source, load_source

NOISE = "noise"
UNSEEN = (NOISE, *(name for name in SOURCES if name not in OWN_FIELDS))
_STREAM = "unseen"


def load_unseen(
    name: str, like: Source, count: int, *, seed: int, data_dir: str | None = None
) -> np.ndarray:
    """Images of another data set's test part, or of uniform noise.

    Args:
      name: one of `UNSEEN`.
      like: the data of the run, to whose shape the images are brought as its own are.
      count: how many at most; which ones the seed decides.
      seed: the run's seed.
      data_dir: where tfds keeps its data.

    Returns:
      uint8 [m, H, W, C], 1 ≤ m ≤ count.

    Raises:
      DataNotPrepared: the data set is not there; the message has the command.
    """
    shape = like.image_shape
    if name == NOISE:
        size = count * math.prod(shape)
        words = random_bits(-(-size // 8), seed=seed, stream=_STREAM)
        return words.astype("<u8").view(np.uint8)[:size].reshape(count, *shape)
    other = load_source(name, data_dir=data_dir)
    order = permutation(len(other.test_labels), seed=seed, stream=_STREAM)
    images = other.read("test", np.sort(order[:count]))
    fit = lambda pixels: FITS[like.fit](from_array(pixels, shape[2]), shape)
    return np.stack([fit(pixels) for pixels in images])
