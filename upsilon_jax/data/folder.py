"""One's own photos: a folder with one sub-folder a class, and a folder of any images.

Every file is decoded when it is seen for the first time: one that cannot be is left
out, counted and listed with the reason. Images are compared by their pixels, so a
labeled image is found again among the unlabeled ones whatever its name or format.
"""

from __future__ import annotations

import math
import os

import numpy as np

from upsilon_jax.data import photos
from upsilon_jax.data.album import FIT, Album, Photo
from upsilon_jax.data.directories import class_files, directory, list_files
from upsilon_jax.data.photos import BadImage
from upsilon_jax.data.source import (
    UNKNOWN,
    Source,
    channel_statistics,
    counted,
    fits_in_memory,
)
from upsilon_jax.data.store import digest_rows
from upsilon_jax.errors import ConfigError, DataError

TEST_FRACTION = 0.2  # of the labeled images, held out if there is no test folder

_SMALL, _LARGE = 32, 64  # image sizes to choose from
_LARGE_FROM = 48  # median of the shorter side from which the larger one is chosen


def load(
    *,
    labeled: str | None = None,
    unlabeled: str | None = None,
    test: str | None = None,
    channels: int | None = None,
    data_dir: str | None = None,
    image_size: int | None = None,
    resident: bool | None = None,
) -> Source:
    """Opens one's own images.

    Args:
      labeled: folder with one sub-folder a class.
      unlabeled: folder with any images, at any depth.
      test: like `labeled`; None holds out a fifth of every class, chosen by content.
      channels: 3, or 1 for grey; None is 1 if all labeled images are grey.
      data_dir: not used.
      image_size: None is chosen from the labeled images.
      resident: see `source.load_source`.
    """
    del data_dir
    labeled = directory("labeled", labeled)
    unlabeled = directory("unlabeled", unlabeled)
    skipped: list[tuple[str, str]] = []
    class_names, labeled_files = class_files("labeled", labeled, skipped)
    notes = [f"{len(class_names)} classes: {_shown(class_names)}"]
    image_size, channels = _choose(labeled_files, image_size, channels, notes)
    shape = (image_size, image_size, channels)
    files = {
        "labeled": (labeled, labeled_files),
        "unlabeled": (
            unlabeled,
            [(p, UNKNOWN) for p in list_files(unlabeled, skipped)],
        ),
    }
    if test:
        test = directory("test", test)
        files["test"] = test, class_files("test", test, skipped, class_names)[1]
    if resident is None:
        num_images = len(files["labeled"][1]) + len(files["unlabeled"][1])
        resident = fits_in_memory(num_images * math.prod(shape))
    album = Album(shape, resident=resident)
    album.check_room(sum(len(found) for _, found in files.values()))
    parts = {part: album.look(*found, skipped) for part, found in files.items()}
    _check_classes(labeled, parts["labeled"], class_names, skipped)
    known, others, held_out = _divide(parts, notes)
    for part, photos_left in (("unlabeled", others), ("test", held_out)):
        if not photos_left:
            raise DataError(
                f"data.{part}={files[part][0]}: has no image that can be used"
            )
    notes.append(counted(len(known), len(others), len(held_out)))
    return _source(album, class_names, known, others, held_out)._replace(
        notes=tuple(notes),
        skipped=tuple(skipped),
        chosen={"image_size": image_size, "channels": channels},
    )


def _source(
    album: Album,
    class_names: tuple[str, ...],
    known: list[Photo],
    others: list[Photo],
    held_out: list[Photo],
) -> Source:
    parts = {"train": known + others, "test": held_out}
    labels = {
        split: np.array([photo.label for photo in part], np.int32)
        for split, part in parts.items()
    }
    readers = {split: album.reader(part) for split, part in parts.items()}
    read = lambda split, indices: readers[split](np.asarray(indices))
    mean, std = channel_statistics(read, np.arange(len(known)))
    return Source(
        name="folder",
        class_names=class_names,
        train_labels=labels["train"],
        test_labels=labels["test"],
        image_shape=album.shape,
        mean=mean,
        std=std,
        read=read,
        resident=album.resident,
        fit=FIT,
        paths={split: [p.path for p in part] for split, part in parts.items()},
        contents={
            split: digest_rows(p.content for p in part) for split, part in parts.items()
        },
    )


def _divide(
    parts: dict[str, list[Photo]], notes: list[str]
) -> tuple[list[Photo], list[Photo], list[Photo]]:
    """Labeled, unlabeled and test images; no unlabeled image is one of the others."""
    known = parts["labeled"]
    if "test" in parts:
        held_out = parts["test"]
    else:
        known, held_out = _hold_out(known, notes)
    others = _without_labeled(parts["unlabeled"], known, held_out, notes)
    _note_leaks(known, held_out, notes)
    return known, others, held_out


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
    if not test:
        raise DataError(
            "data.labeled: no class has two images, so there is none to hold out for "
            "testing; give data.test"
        )
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


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
