"""Decoded pixels that are kept on disk, so that a second start need not decode.

Rows are found by the sha256 of what they were made from. They lie in files of some
hundred rows that are never changed; `cache.py` says what may happen to a file.
"""

from __future__ import annotations

import hashlib
import math
import os
import pathlib
import threading
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tqdm

from upsilon_jax.data import cache
from upsilon_jax.runtime import interrupts, messages

_ROWS_PER_FILE = 1024  # what is lost if the process is killed, at most
_ROWS_PER_TASK = 256  # decoded by a thread at a time: records are read in bulk

_INDEX = np.dtype([("key", "<i8"), ("check", "<u4")])


class _Segment(NamedTuple):
    """Some rows: in a file, or in memory where no file can be written."""

    index: np.ndarray  # type: ignore[assignment]  # [n] _INDEX; hides tuple.index
    rows: np.ndarray | None  # uint8 [n, ...]
    path: pathlib.Path | None = None
    offset: int = 0  # of the rows in the file

    def take(self, positions: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Rows [k, *shape]; an error if the file is gone or another one."""
        if self.rows is not None:
            return self.rows[positions]
        assert self.path  # one of both is there
        whole = (len(self.index), *shape)
        # Mapped only now: every map holds an open file, and there may be many.
        return np.memmap(self.path, np.uint8, "r", self.offset, whole)[positions]


class _Index(NamedTuple):
    """Where each key is, sorted by key; of equal keys the newest comes first."""

    key: np.ndarray  # [m] int64
    segment: np.ndarray  # [m] number of the segment
    row: np.ndarray  # [m] row in it


class Store:
    """Rows of uint8 [*shape] under the sha256 of what they were made from.

    Every row has a checksum, so a damaged one is made again and never returned.
    """

    def __init__(self, name: str, shape: tuple[int, ...]):
        """Opens the store, or an empty one in memory if nothing is to be kept.

        Args:
          name: says how rows are made: stores with the same name share them.
          shape: of a row.
        """
        root = cache.folder()
        self._folder = root and root / f"{name}-{'x'.join(map(str, shape))}"
        self._shape = shape
        self._segments = self._load_all()
        self._lock = threading.Lock()
        self._sort()

    def find(self, digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that are here.

        Args:
          digests: [n, 32] uint8.

        Returns:
          rows uint8 [n, *shape] and found bool [n]; rows that are not found are
          undefined.
        """
        keys, index, segments = _keys(digests), self._index, self._segments
        rows = np.empty((len(keys), *self._shape), np.uint8)
        at = np.searchsorted(index.key, keys)
        found = at < len(index.key)
        found[found] = index.key[at[found]] == keys[found]
        for number in np.unique(index.segment[at[found]]):
            wanted = np.flatnonzero(found)
            wanted = wanted[index.segment[at[wanted]] == number]
            good = self._copy(segments[number], index.row[at[wanted]], rows, wanted)
            found[wanted] = good
        return rows, found

    def add(self, digests: np.ndarray, rows: np.ndarray) -> None:
        """Keeps rows uint8 [n, *shape] under their digests [n, 32]."""
        for start in range(0, len(rows), _ROWS_PER_FILE):
            part = slice(start, start + _ROWS_PER_FILE)
            segment = self._write(_keys(digests[part]), rows[part])
            with self._lock:
                self._segments = [*self._segments, segment]
                self._sort()

    def read(
        self, digests: np.ndarray, make: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Rows [n, *shape]: those that are here, the others made in threads and kept.

        Args:
          digests: [n, 32] uint8.
          make: positions [k] in `digests` -> their rows [k, *shape].
        """
        rows, found = self.find(digests)
        missing = np.flatnonzero(~found)
        with progress_bar("decoding images", len(missing)) as bar:
            for start in range(0, len(missing), _ROWS_PER_FILE):
                interrupts.check()
                block = missing[start : start + _ROWS_PER_FILE]
                rows[block] = in_threads(make, block)
                self.add(digests[block], rows[block])
                bar.update(len(block))
        return rows

    def _copy(self, segment, positions, rows, wanted) -> np.ndarray:
        """Copies rows of a segment to rows[wanted]; returns which of them are sound."""
        try:
            taken = segment.take(positions, self._shape)
        except (OSError, ValueError):  # the file was removed in the meantime
            return np.zeros(len(wanted), bool)
        index = segment.index[positions]
        good = _checks(index["key"], taken) == index["check"]
        rows[wanted] = taken
        if segment.path:
            (cache.mark_used if good.all() else cache.remove)(segment.path)
        return good

    def _write(self, keys: np.ndarray, rows: np.ndarray) -> _Segment:
        rows = np.ascontiguousarray(rows)
        index = np.empty(len(keys), _INDEX)
        index["key"], index["check"] = keys, _checks(keys, rows)

        def fill(file):
            np.save(file, index, allow_pickle=False)
            file.write(rows.data)

        if self._folder:
            path = self._folder / hashlib.sha256(keys.tobytes()).hexdigest()[:32]
            if cache.write(path, fill, index.nbytes + rows.nbytes):
                segment = self._load(path)
                if segment:
                    return segment
        return _Segment(index, rows)

    def _load_all(self) -> list[_Segment]:
        if not self._folder or not self._folder.is_dir():
            return []
        loaded = (self._load(path) for path in sorted(self._folder.iterdir()))
        return [segment for segment in loaded if segment]

    def _load(self, path: pathlib.Path) -> _Segment | None:
        try:
            with open(path, "rb") as file:
                index = np.lib.format.read_array(file, allow_pickle=False)
                offset, size = file.tell(), os.fstat(file.fileno()).st_size
        except Exception:  # numpy raises anything on damaged data
            return None
        expected = offset + len(index) * math.prod(self._shape)
        if index.dtype != _INDEX or size != expected:
            return None
        return _Segment(index, None, path, offset)

    def _sort(self) -> None:
        newest_first = list(enumerate(self._segments))[::-1]
        join = lambda arrays, dtype: np.concatenate([np.empty(0, dtype), *arrays])
        key = join((s.index["key"] for _, s in newest_first), np.int64)
        order = np.argsort(key, kind="stable")
        sizes = [len(s.index) for _, s in newest_first]
        self._index = _Index(
            key[order],
            np.repeat([n for n, _ in newest_first] or [0], sizes or [0])[order],
            join(map(np.arange, sizes), np.int64)[order],
        )


def in_threads(
    make: Callable[[np.ndarray], np.ndarray], positions: np.ndarray
) -> np.ndarray:
    """`make(positions)` by all processors, a few positions at a time."""
    starts = range(0, len(positions), _ROWS_PER_TASK)
    tasks = [positions[start : start + _ROWS_PER_TASK] for start in starts]
    if len(tasks) < 2:
        return make(positions)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(make, tasks)))


def progress_bar(text: str, total: int, *, show: bool = True) -> tqdm.tqdm:
    """A bar that is seen on a terminal only, and gone when it is done."""
    # None: unless there is a terminal
    disable = None if show and messages.are_shown() else True
    return tqdm.tqdm(desc=text, total=total, disable=disable, leave=False)


def digest_rows(digests: Iterable[bytes]) -> np.ndarray:
    """[n, 32] uint8 of n sha256 digests."""
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)


def _keys(digests: np.ndarray) -> np.ndarray:
    """[n] int64: 64 of 256 bits, which are different for different images."""
    return np.ascontiguousarray(digests[:, :8]).view("<i8")[:, 0]


def _checks(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """[n] uint32, of key and row."""
    pairs = zip(keys.tolist(), rows, strict=True)
    return np.array(
        [zlib.crc32(row, key & 0xFFFFFFFF) for key, row in pairs], np.uint32
    )
