"""What a data set is to the rest of the package, and the literal table of them all.

A `Source` is labels and sizes at once, pixels on request. `load_source` opens one by
name; nothing here or below downloads anything (`python -m upsilon_jax.data` does).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from upsilon_jax.data import images
from upsilon_jax.data.classes import check_names, note_likeness
from upsilon_jax.errors import ConfigError, nearest

# Train images of more bytes than this are read from disk batch by batch.
MAX_RESIDENT_BYTES = 2**31

UNKNOWN = -1  # the label of an image that has none

_STATISTICS_CHUNK = 1024  # most images decoded at once while mean and std are summed


class Source(NamedTuple):
    """A data set: labels and sizes, and random access to the pixels."""

    name: str
    class_names: tuple[str, ...]
    train_labels: np.ndarray  # [n] int32, UNKNOWN where there is none
    test_labels: np.ndarray  # [t] int32
    image_shape: tuple[int, int, int]  # (H, W, C)
    mean: tuple[float, ...]  # [C], of images in [0, 1]
    std: tuple[float, ...]  # [C]
    # ("train" | "test", indices [k]) -> uint8 [k, H, W, C]; safe to call from threads
    read: Callable[[str, np.ndarray], np.ndarray]
    resident: bool = True  # small enough to lie on the devices as a whole
    fit: str = "stretch"  # how an image is brought to image_shape: see `images.FITS`
    notes: tuple[str, ...] = ()  # lines worth printing once
    skipped: tuple[tuple[str, str], ...] = ()  # (file, why it was left out)
    chosen: Mapping[str, int] = {}  # values of options that may be left open
    # "train" | "test" -> the file of each image; None if images have none
    paths: Mapping[str, Sequence[str]] | None = None
    # "train" | "test" -> [n, 32] uint8, sha256 of what each image is made from; None if
    # that is the pixels themselves
    contents: Mapping[str, np.ndarray] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all train images as uint8."""
        return len(self.train_labels) * math.prod(self.image_shape)

    @property
    def has_unlabeled(self) -> bool:
        """Whether it comes with its own D_u (`splits.make_own_splits`)."""
        return bool((self.train_labels == UNKNOWN).any())


def in_memory_reader(
    train: np.ndarray, test: np.ndarray
) -> Callable[[str, np.ndarray], np.ndarray]:
    """The `read` of a data set that is two uint8 arrays [n, H, W, C], [t, H, W, C]."""
    arrays = {"train": train, "test": test}
    return lambda split, indices: arrays[split][np.asarray(indices)]


def fits_in_memory(num_bytes: float) -> bool:
    """Whether so many bytes of train images are resident unless one asks otherwise."""
    return num_bytes <= MAX_RESIDENT_BYTES


def channel_statistics(
    read: Callable[[str, np.ndarray], np.ndarray], indices: np.ndarray
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of train images scaled to [0, 1].

    Sums are integers, so the result does not depend on the order of `indices`. A
    constant channel gets standard deviation 1: it is shifted, never divided by zero.
    """
    indices = np.sort(np.asarray(indices))
    if not len(indices):
        raise ValueError("mean and std need at least one image, got none")
    total = squares = np.zeros((), np.int64)
    count = 0
    shape = read("train", indices[:1]).shape[1:]
    chunk = images.at_once(shape, _STATISTICS_CHUNK)
    for start in range(0, len(indices), chunk):
        pixels = read("train", indices[start : start + chunk])
        # [C, n]: rows are summed fast. The square of a uint8 is a uint16.
        channels = np.ascontiguousarray(pixels.reshape(-1, shape[-1]).T)
        squared = np.square(channels, dtype=np.uint16)
        total = total + channels.sum(1, dtype=np.int64)
        squares = squares + squared.sum(1, dtype=np.int64)
        count += channels.shape[1]
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    std = np.where(std > 0, std, 255.0)
    return tuple((mean / 255).tolist()), tuple((std / 255).tolist())


def counted(num_labeled: int, num_unlabeled: int, num_test: int) -> str:
    """A note on the size of one's own data."""
    return (
        f"{num_labeled:,} labeled, {num_unlabeled:,} unlabeled and {num_test:,} test "
        "images"
    )


# Loaders import on call: naming a data set must not import what another one needs.
def _digits(**options) -> Source:
    from upsilon_jax.data import digits

    return digits.load(**options)


def _tfds(name: str) -> Callable[..., Source]:
    def load(**options) -> Source:
        from upsilon_jax.data import tfds_source

        return tfds_source.load(name, **options)

    return load


def _cifar10_svhn(**options) -> Source:
    from upsilon_jax.data import composite

    return composite.load(("cifar10", "svhn"), **options)


def _folder(**options) -> Source:
    from upsilon_jax.data import folder

    return folder.load(**options)


def _npz(**options) -> Source:
    from upsilon_jax.data import npz

    return npz.load(**options)


SOURCES: dict[str, Callable[..., Source]] = {
    "digits": _digits,
    "cifar10": _tfds("cifar10"),
    "cifar100": _tfds("cifar100"),
    "svhn": _tfds("svhn"),
    "tiny_imagenet": _tfds("tiny_imagenet"),
    "imagenet100": _tfds("imagenet100"),
    "cifar10_svhn": _cifar10_svhn,
    "folder": _folder,
    "npz": _npz,
}

# What the loaders of one's own data are told beyond the common options.
OWN_FIELDS = {"folder": ("labeled", "unlabeled", "test", "channels"), "npz": ("path",)}

# What a loader chooses if it is left open: the names of `Source.chosen`.
CHOSEN_FIELDS = {"folder": ("image_size", "channels")}


def check_name(name: str) -> None:
    """Raises a ConfigError with the nearest names if there is no such data set."""
    if name not in SOURCES:
        raise ConfigError(f"data.name={name!r}: {nearest(name, SOURCES)}")


def load_source(
    name: str,
    *,
    data_dir: str | None = None,
    image_size: int | None = None,
    resident: bool | None = None,
    **own: str | int | None,
) -> Source:
    """Opens the data set `name` of `SOURCES`.

    Args:
      name: a key of `SOURCES`.
      data_dir: where tfds keeps its data; None is tfds's own default.
      image_size: height and width to resize to; None is the data set's own.
      resident: True if the images of a split will be read once and held, False if they
        will be streamed again and again; None decides by size (`MAX_RESIDENT_BYTES`).
      **own: `labeled`, `unlabeled`, `test`, `channels` of "folder", `path` of "npz".

    Raises:
      ConfigError: the name is unknown; the message has the nearest.
      DataNotPrepared: the data set is not there; the message has the command.
      DataError: the data cannot be used; two classes of one name, for example.
    """
    check_name(name)
    if image_size is not None and image_size < 1:
        raise ConfigError(f"data.image_size={image_size}: must be at least 1")
    accepted = OWN_FIELDS.get(name, ())
    given = {field: value for field, value in own.items() if value not in (None, "")}
    for field, value in given.items():
        if field not in accepted:
            raise ConfigError(f"data.{field}={value!r}: {name} has no such field")
    source = SOURCES[name](
        data_dir=data_dir, image_size=image_size, resident=resident, **given
    )
    places = (f"data.{field}={value}" for field, value in given.items())
    check_names(source.class_names, ", ".join(places) or f"data.name={name}")
    return source._replace(notes=(*source.notes, *note_likeness(source.class_names)))
