"""Photos as files: each is looked at once, and read by position after that.

What was found is kept (`store.py`): a photo whose path, size and time of change are the
same at the next start is not decoded again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from upsilon_jax.data import cache, images, photos
from upsilon_jax.data.directories import printable
from upsilon_jax.data.photos import BadImage
from upsilon_jax.data.store import Store, digest_rows, progress_bar
from upsilon_jax.errors import DataError
from upsilon_jax.runtime import interrupts

FIT = "crop"  # photos keep their proportions

_BLOCK = 256  # most photos that are looked at before what was found is kept
_SHA_BYTES = 32


class Photo(NamedTuple):
    """A file that can be decoded."""

    path: str
    label: int
    key: bytes  # what `_file_digest` said when it was looked at
    content: bytes  # sha256 of its name below the folder, and of the file
    digest: bytes  # sha256 of its pixels, at full size: equal for equal images


class Album:
    """Photos at one size and number of channels."""

    def __init__(self, shape: tuple[int, int, int], *, resident: bool):
        """Opens what is kept of photos at this size.

        Args:
          shape: (H, W, C) to which photos are brought.
          resident: whether pixels are kept, and not only what was found out.
        """
        version = f"pillow{images.pillow_version()}"
        self.shape, self.resident = shape, resident
        self._facts = Store(f"photos-{shape[2]}-{version}", (2 * _SHA_BYTES,))
        self._pixels = Store(f"{FIT}-{version}", shape) if resident else None
        # Their pixels wait for those of the whole block.
        self._block = images.at_once(shape, _BLOCK) if resident else _BLOCK

    def check_room(self, count: int) -> None:
        """Raises a ConfigError if so many photos would be held and cannot be.

        What is kept on disk takes no memory until a split asks for it, and of how many
        images that is, is for the split to say.
        """
        if self.resident and cache.folder() is None:
            remedy = " (data.residency=stream reads them from disk)"
            images.check_room(count, self.shape, remedy)

    def look(
        self,
        root: str,
        files: Sequence[tuple[str, int]],
        skipped: list[tuple[str, str]],
    ) -> list[Photo]:
        """The photos among files (path, label) below `root`; others go to `skipped`."""
        keys = digest_rows(_file_digest(path) for path, _ in files)
        facts, known = self._facts.find(keys)
        reasons: dict[int, BadImage] = {}
        missing = np.flatnonzero(~known).tolist()
        bar = progress_bar("reading images", len(missing))
        with bar, ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, len(missing), self._block):
                interrupts.check()
                block = missing[start : start + self._block]
                looked = pool.map(self._decode, [files[row][0] for row in block])
                seen = dict(zip(block, looked, strict=True))
                bad = {r: s for r, s in seen.items() if isinstance(s, BadImage)}
                good = {r: s for r, s in seen.items() if not isinstance(s, BadImage)}
                self._keep(keys, facts, good)
                reasons |= bad
                bar.update(len(block))
        skipped += [(printable(files[r][0]), str(why)) for r, why in reasons.items()]
        return [
            _photo(root, *file, keys[row].tobytes(), facts[row].tobytes())
            for row, file in enumerate(files)
            if row not in reasons
        ]

    def reader(self, shown: Sequence[Photo]) -> Callable[[np.ndarray], np.ndarray]:
        """A function of positions [k] in `shown` to their pixels uint8 [k, H, W, C]."""

        def decode(indices: np.ndarray) -> np.ndarray:
            rows = [self._fitted(shown[i]) for i in indices]
            return np.array(rows, np.uint8).reshape(-1, *self.shape)

        pixels = self._pixels
        if pixels is None:
            return decode
        digests = digest_rows(photo.digest for photo in shown)
        return lambda indices: pixels.read(
            digests[indices], lambda some: decode(indices[some])
        )

    def _decode(self, path: str) -> tuple[bytes, bytes, np.ndarray | None] | BadImage:
        """(sha256 of the file, sha256 of the pixels, the pixels that are kept)."""
        try:
            image = photos.decode_file(path, self.shape[2])
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
        except BadImage as error:
            return error
        except OSError as error:
            return BadImage(f"cannot be read ({error.strerror})")
        digest = _pixel_digest(image)
        pixels = None if self._pixels is None else images.crop(image, self.shape)
        return content, digest, pixels

    def _keep(
        self, keys: np.ndarray, facts: np.ndarray, seen: dict[int, tuple]
    ) -> None:
        """Enters what `_decode` found of some rows into `facts` and the stores."""
        if not seen:
            return
        rows = list(seen)
        contents, digests, pixels = zip(*seen.values(), strict=True)
        facts[rows] = np.hstack([digest_rows(contents), digest_rows(digests)])
        self._facts.add(keys[rows], facts[rows])
        if self._pixels is not None:
            self._pixels.add(digest_rows(digests), np.stack(pixels))

    def _fitted(self, photo: Photo) -> np.ndarray:
        try:
            image = photos.decode_file(photo.path, self.shape[2])
        except BadImage as error:  # it was sound when it was looked at
            raise DataError(f"{printable(photo.path)}: {error}") from error
        # What is kept under a digest must be what the digest says. What is not kept is
        # read at every step: there only a file that seems to be another is hashed.
        suspect = self._pixels is not None or _file_digest(photo.path) != photo.key
        if suspect and _pixel_digest(image) != photo.digest:
            raise DataError(f"{printable(photo.path)}: has changed since the start")
        return images.FITS[FIT](image, self.shape)


def _pixel_digest(image: Any) -> bytes:
    """sha256 of size and pixels of a Pillow image."""
    return hashlib.sha256(repr(image.size).encode() + image.tobytes()).digest()


def _file_digest(path: str) -> bytes:
    """A sha256 that changes when the file does; some other one if there is no file."""
    try:
        key = cache.file_key(path)
    except OSError:
        key = f"no file {path!r}"
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _photo(root: str, path: str, label: int, key: bytes, facts: bytes) -> Photo:
    name = os.path.relpath(path, root).encode("utf-8", "surrogateescape")
    content, digest = facts[:_SHA_BYTES], facts[_SHA_BYTES:]
    named = hashlib.sha256(name + bytes(1) + content).digest()
    return Photo(path, label, key, named, digest)
