"""One's own photos: a folder with one sub-folder a class, and a folder of any images.

Every file is decoded once at the start: one that cannot be is left out, counted and
listed with the reason. Images are compared by their pixels, so a labeled image is found
again among the unlabeled ones whatever its name or file format.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tqdm

from upsilon_jax.data import photos
from upsilon_jax.data.directories import class_files, directory, list_files, printable
from upsilon_jax.data.photos import BadImage
from upsilon_jax.data.source import (
    UNKNOWN,
    Source,
    channel_statistics,
    counted,
    in_memory_reader,
    keep_in_memory,
)
from upsilon_jax.errors import ConfigError, DataError

TEST_FRACTION = 0.2  # of the labeled images, held out if there is no test folder

_SMALL, _LARGE = 32, 64  # image sizes to choose from
_LARGE_FROM = 48  # median of the shorter side from which the larger one is chosen


class Photo(NamedTuple):
    """A file that was decoded."""

    path: str
    label: int
    digest: bytes  # of its pixels, at full size
    pixels: np.ndarray | None  # uint8 [H, W, C], if they are kept


def load(
    *,
    labeled: str | None = None,
    unlabeled: str | None = None,
    test: str | None = None,
    channels: int | None = None,
    data_dir: str | None = None,
    image_size: int | None = None,
    in_memory: bool | None = None,
) -> Source:
    """Opens one's own images.

    Args:
      labeled: folder with one sub-folder a class.
      unlabeled: folder with any images, at any depth.
      test: like `labeled`; None holds out a fifth of every class, chosen by content.
      channels: 3, or 1 for grey; None is 1 if all labeled images are grey.
      data_dir: not used.
      image_size: None is chosen from the labeled images.
      in_memory: see `source.load_source`.
    """
    del data_dir
    labeled, unlabeled = (
        directory("labeled", labeled),
        directory("unlabeled", unlabeled),
    )
    skipped: list[tuple[str, str]] = []
    class_names, labeled_files = class_files("labeled", labeled, skipped)
    notes = [f"{len(class_names)} classes: {_shown(class_names)}"]
    image_size, channels = _choose(labeled_files, image_size, channels, notes)
    unlabeled_files = [(path, UNKNOWN) for path in list_files(unlabeled, skipped)]
    test_files = []
    if test:
        test = directory("test", test)
        _, test_files = class_files("test", test, skipped, class_names)

    size = len(labeled_files) + len(unlabeled_files)
    in_memory = keep_in_memory(size * image_size**2 * channels, in_memory)
    decode = lambda files: _decode_all(files, image_size, channels, in_memory, skipped)
    known, others, held_out = map(decode, (labeled_files, unlabeled_files, test_files))
    _check_classes(labeled, known, class_names, skipped)
    if not test:
        known, held_out = _hold_out(known, notes)
    others = _without_labeled(others, known, held_out, notes)
    _note_leaks(known, held_out, notes)
    if not others:
        raise DataError(f"data.unlabeled={unlabeled}: has no image that can be used")
    if not held_out:
        raise DataError(
            f"data.test={test}: has no image that can be used"
            if test
            else f"data.labeled={labeled}: no class has two images, so there is none "
            "to hold out for testing; give data.test"
        )

    notes.append(counted(len(known), len(others), len(held_out)))
    read = _reader(known + others, held_out, image_size, channels, in_memory)
    mean, std = channel_statistics(read, np.arange(len(known)))
    return Source(
        name="folder",
        class_names=class_names,
        train_labels=np.array([p.label for p in known + others], np.int32),
        test_labels=np.array([p.label for p in held_out], np.int32),
        image_shape=(image_size, image_size, channels),
        mean=mean,
        std=std,
        read=read,
        in_memory=in_memory,
        notes=tuple(notes),
        skipped=tuple(skipped),
        chosen={"image_size": image_size, "channels": channels},
    )


def _choose(
    files, image_size: int | None, channels: int | None, notes: list[str]
) -> tuple[int, int]:
    """Image size and channels: as asked, else from the labeled images."""
    if channels not in (None, 1, 3):
        raise ConfigError(f"data.channels={channels}: must be 1 or 3")
    sides, grey = [], []
    if image_size is None or channels is None:
        for path, _ in files:
            try:
                side, is_grey = photos.image_header(path)
            except BadImage:  # reported when it is decoded
                continue
            sides.append(side)
            grey.append(is_grey)
    if image_size is None:
        median = int(np.median(sides)) if sides else _SMALL
        image_size = _LARGE if median >= _LARGE_FROM else _SMALL
        notes.append(
            f"shorter side of labeled images: {median} pixels (median), resized to "
            f"{image_size}×{image_size}"
        )
    if channels is None:
        channels = 1 if grey and all(grey) else 3
    return image_size, channels


def _decode_all(files, image_size, channels, keep, skipped) -> list[Photo]:
    def decode(file: tuple[str, int]) -> Photo | BadImage:
        path, label = file
        try:
            image = photos.decode_file(path, channels)
        except BadImage as error:
            return error
        digest = hashlib.sha256(repr(image.size).encode() + image.tobytes()).digest()
        pixels = photos.fit(image, image_size) if keep else None
        return Photo(path, label, digest, pixels)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bar = tqdm.tqdm(
            pool.map(decode, files),
            desc="reading images",
            total=len(files),
            disable=None,  # only on a terminal
            leave=False,
        )
        results = list(bar)
    for (path, _), result in zip(files, results, strict=True):
        if isinstance(result, BadImage):
            skipped.append((printable(path), str(result)))
    return [result for result in results if isinstance(result, Photo)]


def _check_classes(folder, known, class_names, skipped) -> None:
    for label, name in enumerate(class_names):
        if not any(photo.label == label for photo in known):
            reasons = [
                why for path, why in skipped if f"{os.sep}{name}{os.sep}" in path
            ]
            detail = f" ({len(reasons)} files: {reasons[0]})" if reasons else ""
            raise DataError(
                f"data.labeled={folder}: class {name} has no readable image{detail}"
            )


def _hold_out(known: list[Photo], notes: list[str]) -> tuple[list[Photo], list[Photo]]:
    """Takes test images from every class by their digests: no seed, no file names.

    Equal images have equal digests, so copies of one do not end on both sides. At least
    one image is taken, but a class of one image keeps it to learn from.
    """
    tested = set()
    for label in {photo.label for photo in known}:
        digests = sorted({photo.digest for photo in known if photo.label == label})
        held = max(int(len(digests) * TEST_FRACTION), min(len(digests) - 1, 1))
        tested.update(digests[:held])
    train = [photo for photo in known if photo.digest not in tested]
    test = [photo for photo in known if photo.digest in tested]
    notes.append(
        f"no data.test: {len(test):,} of {len(known):,} labeled images held out"
    )
    return train, test


def _without_labeled(others, known, held_out, notes) -> list[Photo]:
    seen = {photo.digest for photo in (*known, *held_out)}
    left = [photo for photo in others if photo.digest not in seen]
    if len(left) < len(others):
        count = len(others) - len(left)
        notes.append(
            f"{count:,} unlabeled images left out: they are labeled or test images"
        )
    return left


def _note_leaks(known, held_out, notes) -> None:
    labels: dict[bytes, set[int]] = {}
    for photo in known:
        labels.setdefault(photo.digest, set()).add(photo.label)
    conflicts = sum(len(found) > 1 for found in labels.values())
    if conflicts:
        notes.append(f"{conflicts:,} images are in more than one class")
    leaked = sum(photo.digest in labels for photo in held_out)
    if leaked:
        notes.append(f"{leaked:,} test images are labeled ones too")


def _reader(train, test, image_size, channels, in_memory):
    shape = (0, image_size, image_size, channels)
    if in_memory:
        stack = lambda part: (
            np.stack([p.pixels for p in part]) if part else (np.empty(shape, np.uint8))
        )
        return in_memory_reader(stack(train), stack(test))
    paths = {"train": [p.path for p in train], "test": [p.path for p in test]}

    def read(split: str, indices: np.ndarray) -> np.ndarray:
        pixels = np.empty((len(indices), *shape[1:]), np.uint8)
        for row, index in enumerate(indices):
            path = paths[split][index]
            try:
                pixels[row] = photos.fit(photos.decode_file(path, channels), image_size)
            except BadImage as error:  # it was fine at the start
                raise DataError(f"{printable(path)}: {error}") from error
        return pixels

    return read


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
