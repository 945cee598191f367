"""What the images of a run are, in a few hashes: the same data have the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from upsilon_jax.data.source import UNKNOWN, Source
from upsilon_jax.data.store import digest_rows

_CHUNK = 1024  # images that are read at once where the pixels are hashed


def data_digest(source: Source) -> dict[str, str]:
    """sha256 of each part of the data, and of them all under "all".

    Parts are "classes", "test" and either "train" or, where D_u is a part of its own,
    "labeled" and "unlabeled". A part covers order, label and content of its images: of
    prepared data sets and photos the image files (and the names of photos below their
    folder), else the pixels. Folders may be moved, and records converted to another
    format. `changed` compares two digests.
    """
    train, test = (_images(source, split) for split in ("train", "test"))
    unlabeled = source.train_labels == UNKNOWN
    parts = {"classes": _sha("\0".join(source.class_names).encode())}
    if source.has_unlabeled:
        parts["labeled"] = _sha(train[~unlabeled].tobytes())
        parts["unlabeled"] = _sha(train[unlabeled].tobytes())
    else:
        parts["train"] = _sha(train.tobytes())
    parts["test"] = _sha(test.tobytes())
    return {"all": _sha("".join(parts.values()).encode()), **parts}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The parts of two digests that are not the same, in order; none if all are."""
    parts = [part for part in {**before, **now} if part != "all"]
    return [part for part in parts if before.get(part) != now.get(part)]


def _images(source: Source, split: str) -> np.ndarray:
    """[n, 36] uint8: label and sha256 of each image."""
    labels = source.train_labels if split == "train" else source.test_labels
    if source.contents is not None:
        contents = source.contents[split]
    else:
        contents = _pixel_digests(source, split, len(labels))
    labels = np.ascontiguousarray(labels, "<i4").view(np.uint8).reshape(-1, 4)
    return np.concatenate([labels, contents], axis=1)


def _pixel_digests(source: Source, split: str, count: int) -> np.ndarray:
    digests = []
    for start in range(0, count, _CHUNK):
        pixels = source.read(split, np.arange(start, min(start + _CHUNK, count)))
        digests += [
            hashlib.sha256(np.ascontiguousarray(row)).digest() for row in pixels
        ]
    return digest_rows(digests)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
