"""Images to predict, wherever they are, brought to the shape that a network takes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from upsilon_jax.data import npz, photos
from upsilon_jax.data.directories import list_files, printable
from upsilon_jax.data.images import FITS
from upsilon_jax.data.photos import BadImage
from upsilon_jax.data.streams import Prefetch
from upsilon_jax.errors import DataError

ARRAY = "x"  # the name of the images in a .npz file

# Decoded by a thread at a time: few enough that a bar moves while photos are large.
_TASK = 16
_TASKS_AHEAD = 16

Skipped = list[tuple[str, str]]  # (file, why it was left out)


class Fit(NamedTuple):
    """How an image becomes uint8 [H, W, C], as in training."""

    shape: tuple[int, int, int]
    how: str  # a name of `data.images.FITS`

    def file(self, path: str) -> np.ndarray:
        """A file; raises BadImage."""
        return FITS[self.how](photos.decode_file(path, self.shape[2]), self.shape)

    def array(self, pixels: np.ndarray) -> np.ndarray:
        """uint8 [h, w, c], c = 1 to 4."""
        if pixels.shape == self.shape:
            return pixels
        return FITS[self.how](photos.from_array(pixels, self.shape[2]), self.shape)


class Picture(NamedTuple):
    """An image that has not been read yet."""

    path: str  # of its file, "" if it has none
    # Its place in an array, -1 if it is a file of its own. Hides tuple.index.
    index: int  # type: ignore[assignment]
    read: Callable[[], np.ndarray]  # -> uint8 [H, W, C]; raises BadImage


def find_pictures(
    images: Any, fit: Fit, skipped: Skipped, origin: str = "images"
) -> list[Picture]:
    """The pictures of whatever a person may give.

    Args:
      images: uint8 [n, h, w] or [n, h, w, c], the path of an image file, of a .npz file
        with such an array `x` or of a folder, whose files are taken at any depth; or a
        sequence of paths and of images [h, w] or [h, w, c], all of any size.
      fit: how they are brought to one shape.
      skipped: gets what a folder has that cannot be read at all.
      origin: how messages call `images`.
    """
    if isinstance(images, str | os.PathLike):
        return _of_path(os.fspath(images), fit, skipped)
    if hasattr(images, "ndim"):
        return _of_array(np.asarray(images), fit, origin)
    if not isinstance(images, Iterable):
        raise DataError(f"{origin}: no images, nor a path ({type(images).__name__})")
    found = []
    for place, one in enumerate(images):
        if hasattr(one, "ndim"):
            (picture,) = _of_array(np.asarray(one)[None], fit, f"{origin}[{place}]")
            found.append(picture._replace(index=place))
        else:
            found += find_pictures(one, fit, skipped, origin)
    return found


def _of_path(path: str, fit: Fit, skipped: Skipped) -> list[Picture]:
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return of_files(list_files(path, skipped), fit)
    if not os.path.lexists(path):
        raise DataError(f"{printable(path)}: there is no such file or folder")
    if not path.lower().endswith(".npz"):
        return of_files([path], fit)
    array = npz.read_arrays(path, (ARRAY,), path)[ARRAY]
    pictures = _of_array(array, fit, f"{path}: {ARRAY}")
    return [picture._replace(path=path) for picture in pictures]


def of_files(paths: Iterable[str], fit: Fit) -> list[Picture]:
    """A picture for each file, whatever it holds."""
    return [Picture(path, -1, functools.partial(fit.file, path)) for path in paths]


def _of_array(array: np.ndarray, fit: Fit, origin: str) -> list[Picture]:
    images = array[..., None] if array.ndim == 3 else array
    if (
        images.dtype != np.uint8
        or images.ndim != 4
        or images.shape[3] not in (1, 2, 3, 4)
        or 0 in images.shape[1:]
    ):
        raise DataError(
            f"{origin}: must be uint8 [n, height, width] or [n, height, width, "
            f"channels], got {array.dtype} {list(array.shape)}"
        )
    if array.ndim == 3 and array.shape[2] in (3, 4) and fit.shape[1] > 4:
        raise DataError(
            f"{origin}: {list(array.shape)} looks like one image in colour; give "
            "images[None], an array of one image"
        )
    read = lambda pixels: functools.partial(fit.array, pixels)
    return [Picture("", row, read(pixels)) for row, pixels in enumerate(images)]


class Batch(NamedTuple):
    """Pictures that could be read."""

    places: list[int]  # [n] in the sequence of pictures
    pixels: np.ndarray  # uint8 [n, H, W, C]
    num_seen: int  # with those that could not


def batches(
    pictures: Sequence[Picture], size: int, skipped: Skipped
) -> Iterator[Batch]:
    """Reads pictures in order by threads, `size` at a time; the last has fewer.

    Those that cannot be read go to `skipped` with the reason.
    """
    tasks = (range(len(pictures))[at:][:_TASK] for at in range(0, len(pictures), _TASK))
    read = lambda task: [_read(pictures[place]) for place in task]
    places: list[int] = []
    rows: list[np.ndarray] = []
    seen = last = 0
    with Prefetch(read, tasks, depth=_TASKS_AHEAD) as results:
        for result in results:
            for found in result:
                if isinstance(found, BadImage):
                    skipped.append((printable(pictures[seen].path), str(found)))
                else:
                    places.append(seen)
                    rows.append(found)
                seen += 1
                if len(rows) == size or (rows and seen == len(pictures)):
                    yield Batch(places, np.stack(rows), seen - last)
                    places, rows, last = [], [], seen


def _read(picture: Picture) -> np.ndarray | BadImage:
    try:
        return picture.read()
    except BadImage as error:
        return error
