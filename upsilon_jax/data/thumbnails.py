"""Small pictures of images, for people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from upsilon_jax.data import images, photos
from upsilon_jax.data.photos import BadImage
from upsilon_jax.data.source import Source

MAX_SIDE = 96  # pixels


def make_thumbnails(
    source: Source, wanted: Sequence[tuple[str, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of at most `MAX_SIDE` pixels a side, all of one shape.

    An image that is a file is decoded again, at the size that files have; any other is
    as in training, or smaller.

    Args:
      source: where they are from.
      wanted: ("train" | "test", index) of each.

    Returns:
      uint8 [s, h, w, C], and the positions [s] in `wanted` they are of: a file that is
      gone by now has no picture.
    """
    if source.paths is None:
        pixels = _as_in_training(source, wanted)
        return pixels, np.arange(len(pixels))
    paths = [source.paths[split][index] for split, index in wanted]
    shape = _photo_shape(source, paths)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda path: _photo(path, source.fit, shape), paths))
    made = [position for position, picture in enumerate(found) if picture is not None]
    pictures = np.array([found[position] for position in made], np.uint8)
    return pictures.reshape(-1, *shape), np.array(made, np.int64)


def _as_in_training(source: Source, wanted: Sequence[tuple[str, int]]) -> np.ndarray:
    pixels = np.empty((len(wanted), *source.image_shape), np.uint8)
    for part in ("train", "test"):
        rows = [row for row, (split, _) in enumerate(wanted) if split == part]
        if rows:
            pixels[rows] = source.read(part, np.array([wanted[row][1] for row in rows]))
    return images.resize(pixels, *_at_most(source.image_shape[:2], MAX_SIDE))


def _at_most(size: Sequence[int], side: int) -> tuple[int, int]:
    """(height, width) with the same proportions, the longer one at most `side`."""
    scale = min(1, side / max(size))
    height, width = (max(1, round(scale * length)) for length in size)
    return height, width


def _photo_shape(source: Source, paths: Sequence[str]) -> tuple[int, int, int]:
    """As large as the files, the median of them, but no smaller than in training."""
    sides = []
    for path in paths:
        try:
            sides.append(photos.image_header(path)[0])
        except BadImage:  # gone by now
            continue
    *size, channels = source.image_shape
    scale = max(1, np.median(sides) / min(size)) if sides else 1
    size = [int(scale * length) for length in size]
    return (*_at_most(size, MAX_SIDE), channels)


def _photo(path: str, fit: str, shape: tuple[int, int, int]) -> np.ndarray | None:
    try:
        image = photos.decode_file(path, shape[2], at_least=2 * max(shape[:2]))
    except BadImage:
        return None
    return images.FITS[fit](image, shape)
