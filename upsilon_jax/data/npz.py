"""One's own images as a NumPy file: x_train, y_train, x_test, y_test, x_unlabeled."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np

from upsilon_jax.data import images
from upsilon_jax.data.directories import printable
from upsilon_jax.data.source import (
    UNKNOWN,
    Source,
    channel_statistics,
    counted,
    in_memory_reader,
)
from upsilon_jax.errors import ConfigError, DataError, said
from upsilon_jax.runtime import memory

REQUIRED = ("x_train", "y_train", "x_test", "y_test")


def load(
    *,
    path: str | None = None,
    data_dir: str | None = None,
    image_size: int | None = None,
    resident: bool | None = None,
) -> Source:
    """Opens a .npz file of uint8 images [n, H, W] or [n, H, W, C] and integer labels.

    `x_unlabeled` is optional: without it D_u is drawn from the train images, as in a
    benchmark. So is `class_names` [C] of text; else classes are called by their number.
    The file is never unpickled.
    """
    del data_dir, resident
    if not path:
        raise ConfigError("data.path is empty: it must name a .npz file")
    arrays = read_arrays(path, REQUIRED, f"data.path={path}")
    x_train, y_train = _labeled(arrays, "train", path)
    x_test, y_test = _labeled(arrays, "test", path)
    values, train_labels = np.unique(y_train, return_inverse=True)
    unknown = np.setdiff1d(y_test, values)
    if len(unknown):
        raise DataError(f"{path}: y_test has {unknown[0]}, which y_train has not")
    x_unlabeled = x_train[:0]
    if "x_unlabeled" in arrays:
        x_unlabeled = _images(arrays, "x_unlabeled", path)
    for name, array in (("x_test", x_test), ("x_unlabeled", x_unlabeled)):
        if array.shape[1:] != x_train.shape[1:]:
            raise DataError(
                f"{path}: images of {name} are {array.shape[1:]}, those of x_train "
                f"{x_train.shape[1:]}"
            )
    train, test = np.concatenate([x_train, x_unlabeled]), x_test
    if image_size is not None:
        train, test = (images.resize(array, image_size) for array in (train, test))
    labels = np.full(len(train), UNKNOWN, np.int32)
    labels[: len(x_train)] = train_labels
    read = in_memory_reader(train, test)
    mean, std = channel_statistics(read, np.arange(len(x_train)))
    return Source(
        name="npz",
        class_names=_class_names(arrays, values, path),
        train_labels=labels,
        test_labels=np.searchsorted(values, y_test).astype(np.int32),
        image_shape=train.shape[1:],
        mean=mean,
        std=std,
        read=read,
        notes=(counted(len(x_train), len(x_unlabeled), len(x_test)),),
    )


def read_arrays(
    path: str, required: Sequence[str], origin: str
) -> Mapping[str, np.ndarray]:
    """The arrays of a .npz file, never unpickled.

    Args:
      path: of the file.
      required: names that it must have.
      origin: what the user said, for messages.
    """
    try:
        with open(os.path.expanduser(path), "rb") as opened:
            _check_size(opened, origin)
            with np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
    except DataError:
        raise
    except Exception as error:  # numpy and zipfile raise anything on damaged data
        raise DataError(f"{origin}: cannot be read as .npz ({said(error)})") from error
    missing = [name for name in required if name not in arrays]
    if missing:
        raise DataError(f"{origin}: has no {', '.join(missing)}")
    return arrays


def _check_size(opened: BinaryIO, origin: str) -> None:
    """A few kilobytes can unpack to terabytes: the archive says how much it holds."""
    with zipfile.ZipFile(opened) as archive:
        size = sum(member.file_size for member in archive.infolist())
    opened.seek(0)
    room = memory.most_bytes()
    if size > room:
        raise DataError(
            f"{origin}: holds {memory.shown(size)}, and there are "
            f"{memory.shown(room)} of memory"
        )


def _images(arrays, name: str, path) -> np.ndarray:
    x = arrays[name]
    x = x[..., None] if x.ndim == 3 else x
    if (
        x.dtype != np.uint8
        or x.ndim != 4
        or x.shape[3] not in (1, 3)
        or 0 in x.shape[1:]
    ):
        raise DataError(
            f"{path}: {name} must be uint8 [n, H, W] or [n, H, W, 1 or 3], got "
            f"{arrays[name].dtype} {list(arrays[name].shape)}"
        )
    return x


def _labeled(arrays, split: str, path) -> tuple[np.ndarray, np.ndarray]:
    x, y = _images(arrays, f"x_{split}", path), arrays[f"y_{split}"]
    if y.shape == (len(x), 1):  # a column, as Keras keeps labels
        y = y[:, 0]
    if y.shape != (len(x),) or y.dtype.kind not in "iu":
        raise DataError(
            f"{path}: y_{split} must be {len(x):,} integers, one for each image, got "
            f"{y.dtype} {list(y.shape)}"
        )
    if not len(x):
        raise DataError(f"{path}: x_{split} is empty")
    return x, y


def _class_names(arrays, values: np.ndarray, path) -> tuple[str, ...]:
    if "class_names" not in arrays:
        return tuple(str(value) for value in values)
    names = arrays["class_names"]
    text = names.dtype.kind == "U" and names.ndim == 1
    if not text or values[0] < 0 or values[-1] >= len(names):
        raise DataError(f"{path}: class_names must be text, one for each label from 0")
    return tuple(printable(str(names[value])) for value in values)
