"""Pixels read ahead by threads, for data that are streamed."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from upsilon_jax.data.samplers import Draws, in_calls
from upsilon_jax.errors import ConfigError

Read = Callable[[str, np.ndarray], np.ndarray]

DEFAULT_PREFETCH_BYTES = 256 * 2**20
DEFAULT_NUM_THREADS = 8


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


def batches(
    read: Read,
    draws: Draws,
    *,
    steps_per_call: int,
    image_shape: tuple[int, ...],
    prefetch_bytes: int = DEFAULT_PREFETCH_BYTES,
    num_threads: int = DEFAULT_NUM_THREADS,
    shard: tuple[int, int] = (0, 1),
) -> Prefetch:
    """The pixels of every call in order: (draws, number of steps, image, unlabeled).

    Args:
      read: `Source.read`.
      draws: of the steps to take.
      steps_per_call: how many steps one item holds; see `samplers.in_calls`.
      image_shape: (H, W, C).
      prefetch_bytes: pixels held at once, at most; at least one item.
      num_threads: that read and decode.
      shard: (i, n): pixels of the i-th of n equal parts of every batch only.

    Returns:
      An iterator whose pixels are uint8 [(steps,) B / n, H, W, C] and likewise with M.
    """
    rows = [own_rows(part.shape[-1], shard) for part in (draws.labeled, draws.index)]

    def pixels(indices: np.ndarray) -> np.ndarray:
        found = read("train", indices.reshape(-1))
        return found.reshape(*indices.shape, *found.shape[1:])

    def fetch(call: tuple[Draws, int]):
        part, count = call
        image = pixels(part.labeled[..., rows[0]])
        return part, count, image, pixels(part.unlabeled[..., rows[1]])

    held = steps_per_call * sum(part.stop - part.start for part in rows)
    return Prefetch(
        fetch,
        in_calls(draws, steps_per_call),
        depth=prefetch_depth(held * math.prod(image_shape), prefetch_bytes),
        num_threads=num_threads,
    )


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
    rows = own_rows(batch_size, shard)

    def batch(start: int) -> np.ndarray:
        positions = np.arange(start, start + batch_size)[rows]
        return read(split, indices[np.minimum(positions, len(indices) - 1)])

    if not len(indices):
        return Prefetch(batch, (), depth=1)
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
        raise ConfigError(
            f"data.prefetch_bytes={prefetch_bytes}: one batch takes {batch_bytes:,}"
        )
    return max(prefetch_bytes // max(batch_bytes, 1) - 1, 1)


def own_rows(size: int, shard: tuple[int, int]) -> slice:
    """The rows of a batch that one process reads."""
    part, parts = shard
    if size % parts or not 0 <= part < parts:
        raise ValueError(f"a batch of {size} cannot be read in {parts} equal parts")
    return slice(part * size // parts, (part + 1) * size // parts)
