"""Batches for the host loop: indices, and pixels read ahead when data are streamed."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from upsilon_jax.data import samplers

Read = Callable[[str, np.ndarray], np.ndarray]

DEFAULT_PREFETCH_BYTES = 256 * 2**20
DEFAULT_NUM_THREADS = 8


class HostBatch(NamedTuple):
    """What one step needs from the host; pixels only if data are streamed."""

    labeled: np.ndarray  # [B] int64, into the train images
    label: np.ndarray  # [B] int32 in [0, C)
    unlabeled: np.ndarray  # [M] int64, into the train images
    index: np.ndarray  # [M] int32, positions in D_u
    image: np.ndarray | None = None  # uint8 [B / shards, H, W, C]
    unlabeled_image: np.ndarray | None = None  # uint8 [M / shards, H, W, C]


class Prefetch:
    """Maps `function` over `items` in order, at most `depth` results ahead, in threads.

    An exception in a worker is raised by the `next` that would have given its result.
    Work is only started by `next`, so nothing runs on when the consumer has stopped.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        depth: int,
        num_threads: int = DEFAULT_NUM_THREADS,
    ):
        if depth < 1 or num_threads < 1:
            raise ValueError(f"depth={depth} and num_threads={num_threads} must be ≥ 1")
        self._function = function
        self._items = iter(items)
        self._depth = depth
        self._pending: collections.deque[concurrent.futures.Future] = (
            collections.deque()
        )
        self._executor = concurrent.futures.ThreadPoolExecutor(
            min(num_threads, depth), thread_name_prefix="prefetch"
        )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        free = self._depth - len(self._pending)
        for item in itertools.islice(self._items, free):
            self._pending.append(self._executor.submit(self._function, item))
        if not self._pending:
            self.close()
            raise StopIteration
        return self._pending.popleft().result()

    def close(self) -> None:
        """Drops what is not read yet and waits for the threads; may be called twice."""
        self._items = iter(())
        self._pending.clear()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Pipeline:
    """The batches of one epoch from a given step on; an iterator of `HostBatch`.

    The host loop closes it and builds another after every refresh. With `read` it also
    yields pixels; the sequence of indices is the same either way.
    """

    def __init__(
        self,
        labeled: np.ndarray,
        label: np.ndarray,
        unlabeled: np.ndarray,
        *,
        batch_size: int,
        unlabeled_batch_size: int,
        epoch: int,
        steps_per_epoch: int,
        seed: int,
        start: int = 0,
        population: np.ndarray | None = None,
        read: Read | None = None,
        image_shape: tuple[int, ...] = (),
        prefetch_bytes: int = DEFAULT_PREFETCH_BYTES,
        num_threads: int = DEFAULT_NUM_THREADS,
        shard: tuple[int, int] = (0, 1),
    ):
        """Draws the indices of the epoch; pixels are read on demand.

        Args:
          labeled: [n] `Splits.labeled`.
          label: [n] int32, their labels in [0, C).
          unlabeled: [N] `Splits.unlabeled`.
          batch_size: B.
          unlabeled_batch_size: M, 0 for a supervised epoch.
          epoch: number of the epoch, from 0.
          steps_per_epoch: batches in an epoch.
          seed: the run's seed.
          start: the first step of the epoch to yield, > 0 when resuming.
          population: [p] positions in D_u to draw from, None for all of them.
          read: `Source.read` if data are streamed, else None.
          image_shape: (H, W, C), needed with `read`.
          prefetch_bytes: pixels held at once, at most; at least one batch.
          num_threads: that read and decode.
          shard: (i, n): pixels of the i-th of n equal parts of every batch only.
        """
        if not 0 <= start <= steps_per_epoch:
            raise ValueError(f"start={start}: an epoch has {steps_per_epoch} steps")
        num_steps = steps_per_epoch - start
        drawn = samplers.labeled_indices(
            len(labeled),
            batch_size,
            epoch * steps_per_epoch + start,
            seed,
            num_steps=num_steps,
        )
        self._labeled, self._label = np.asarray(labeled)[drawn], label[drawn]
        if unlabeled_batch_size:
            population = np.arange(len(unlabeled)) if population is None else population
            index = samplers.unlabeled_indices(
                population, unlabeled_batch_size, epoch, steps_per_epoch, seed
            )[start:]
        else:
            index = np.zeros((num_steps, 0), np.int64)
        self._index = index.astype(np.int32)
        self._unlabeled = np.asarray(unlabeled)[index]
        self._rows = [_rows(size, shard) for size in (batch_size, unlabeled_batch_size)]
        self._read = read
        steps = range(num_steps)
        if read is None:
            self._batches = map(self._batch, steps)
            return
        rows = sum(part.stop - part.start for part in self._rows)
        depth = prefetch_depth(rows * math.prod(image_shape), prefetch_bytes)
        self._batches = Prefetch(
            self._batch, steps, depth=depth, num_threads=num_threads
        )

    def _batch(self, step: int) -> HostBatch:
        batch = HostBatch(
            labeled=self._labeled[step],
            label=self._label[step],
            unlabeled=self._unlabeled[step],
            index=self._index[step],
        )
        if self._read is None:
            return batch
        rows, unlabeled_rows = self._rows
        return batch._replace(
            image=self._read("train", batch.labeled[rows]),
            unlabeled_image=self._read("train", batch.unlabeled[unlabeled_rows]),
        )

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[HostBatch]:
        return self

    def __next__(self) -> HostBatch:
        return next(self._batches)

    def close(self) -> None:
        """Ends the threads, if there are any; iteration stops."""
        if isinstance(self._batches, Prefetch):
            self._batches.close()
        self._batches = iter(())

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()


def in_order(
    read: Read,
    split: str,
    indices: np.ndarray,
    *,
    batch_size: int,
    image_shape: tuple[int, ...],
    prefetch_bytes: int = DEFAULT_PREFETCH_BYTES,
    num_threads: int = DEFAULT_NUM_THREADS,
    shard: tuple[int, int] = (0, 1),
) -> Prefetch:
    """Pixels of `indices` in order, uint8 [batch_size / shards, H, W, C] a time.

    The last batch is filled up with its own last image; the caller knows the length.
    """
    rows = _rows(batch_size, shard)
    if not len(indices):
        return Prefetch(read, (), depth=1)

    def batch(start: int) -> np.ndarray:
        positions = np.arange(start, start + batch_size)[rows]
        return read(split, indices[np.minimum(positions, len(indices) - 1)])

    held = (rows.stop - rows.start) * math.prod(image_shape)
    return Prefetch(
        batch,
        range(0, len(indices), batch_size),
        depth=prefetch_depth(held, prefetch_bytes),
        num_threads=num_threads,
    )


def prefetch_depth(batch_bytes: int, prefetch_bytes: int) -> int:
    """Batches that may be under way so that, with the one in use, they stay within."""
    if batch_bytes > prefetch_bytes:
        raise ValueError(
            f"data.prefetch_bytes={prefetch_bytes}: one batch takes {batch_bytes:,}"
        )
    return max(prefetch_bytes // max(batch_bytes, 1) - 1, 1)


def _rows(size: int, shard: tuple[int, int]) -> slice:
    """The rows of a batch that one process reads."""
    part, parts = shard
    if size % parts or not 0 <= part < parts:
        raise ValueError(f"a batch of {size} cannot be read in {parts} equal parts")
    return slice(part * size // parts, (part + 1) * size // parts)
