"""What the images of a run are, in a few hashes: the same data have the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from upsilon_jax.data.directories import printable
from upsilon_jax.data.images import at_once
from upsilon_jax.data.source import UNKNOWN, Source
from upsilon_jax.data.store import digest_rows

_CHUNK = 1024  # most images that are read at once where the pixels are hashed
_FILE_DIGEST = 16  # hex digits: enough to see a change, not to prevent a forgery
_SHOWN = 5  # file names in a message


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


def file_digests(source: Source) -> dict[str, str]:
    """Path -> digest of name and content, of photos; empty if images have no files."""
    if source.paths is None or source.contents is None:
        return {}
    return {
        path: content.tobytes().hex()[:_FILE_DIGEST]
        for split, paths in source.paths.items()
        for path, content in zip(paths, source.contents[split], strict=True)
    }


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What happened to files, as "2 added (a.png, b.png)"; none if nothing did.

    A folder that was moved as a whole has not changed.
    """
    same = set(before.values()) & set(now.values())
    old = {path for path, digest in before.items() if digest not in same}
    new = {path for path, digest in now.items() if digest not in same}
    found = {"added": new - old, "removed": old - new, "replaced": old & new}
    return [
        f"{len(paths):,} {what} ({_some(sorted(paths))})"
        for what, paths in found.items()
        if paths
    ]


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(printable(path) for path in paths[:_SHOWN])
    return shown + (", ..." if len(paths) > _SHOWN else "")


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
    digests, chunk = [], at_once(source.image_shape, _CHUNK)
    for start in range(0, count, chunk):
        pixels = source.read(split, np.arange(start, min(start + chunk, count)))
        digests += [
            hashlib.sha256(np.ascontiguousarray(row).data).digest() for row in pixels
        ]
    return digest_rows(digests)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
