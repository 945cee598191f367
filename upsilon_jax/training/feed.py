"""Pixels onto the devices: resident or streamed, behind one interface.

Resident: the images of the split lie on every device as uint8 and are gathered by
index. Streamed: they come from disk, read ahead by threads. Both give the same uint8
batches to the same compiled step, so the same seed gives the same run. With several
processes, streamed images are read by the process whose devices need them, resident
ones by all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from upsilon_jax.data import streams
from upsilon_jax.data.samplers import Draws, in_calls
from upsilon_jax.data.source import Source
from upsilon_jax.runtime import sharding
from upsilon_jax.training.step import RawBatch


class Feed(NamedTuple):
    """How a run gets its images."""

    # draws of an epoch -> for every call of the train step its batch, and how many
    # steps of it count; with several steps a call, arrays have a first axis over them
    batches: Callable[[Draws], AbstractContextManager[Iterator[tuple[RawBatch, int]]]]
    # (split, indices [n], batch_size) -> uint8 [batch_size, H, W, C] on the devices,
    # in order; the last one is filled up with its own last image
    in_order: Callable[[str, np.ndarray, int], Iterator[jax.Array]]


def resident(
    source: Source,
    used: dict[str, np.ndarray],
    mesh: Mesh,
    gather: Callable,
    *,
    steps_per_call: int,
) -> Feed:
    """The images that a split uses on every device.

    Args:
      source: where they come from.
      used: split -> indices of its images that will ever be asked for, sorted.
      mesh: the devices.
      gather: (images [n, H, W, C], index [..., M]) -> [..., M, H, W, C].
      steps_per_call: of the train step.
    """
    images = {split: source.read(split, rows) for split, rows in used.items()}
    images = sharding.replicate(images, mesh)
    place = lambda split, indices: np.searchsorted(used[split], indices)
    index_of = lambda split, indices: place(split, indices).astype(np.int32)

    def batch(draws: Draws) -> RawBatch:
        labeled, label, unlabeled, index = sharding.put_rows(
            (
                index_of("train", draws.labeled),
                draws.label,
                index_of("train", draws.unlabeled),
                draws.index,
            ),
            mesh,
            axis=draws.label.ndim - 1,
        )
        return RawBatch(
            image=gather(images["train"], labeled),
            label=label,
            unlabeled=gather(images["train"], unlabeled),
            index=index,
        )

    def batches(draws: Draws):
        calls = in_calls(draws, steps_per_call)
        return contextlib.nullcontext((batch(part), count) for part, count in calls)

    def in_order(split, indices, batch_size):
        indices = index_of(split, indices)
        for start in range(0, len(indices), batch_size):
            chunk = indices[start : start + batch_size]
            chunk = np.pad(chunk, (0, batch_size - len(chunk)), mode="edge")
            yield gather(images[split], sharding.put_rows(chunk, mesh))

    return Feed(batches, in_order)


def streamed(
    source: Source, mesh: Mesh, *, steps_per_call: int, prefetch_bytes: int
) -> Feed:
    """Images read when they are needed, a bounded number of bytes ahead."""
    common: dict[str, Any] = {
        "image_shape": source.image_shape,
        "prefetch_bytes": prefetch_bytes,
        "shard": sharding.own_share(),
    }

    def put(draws: Draws, *pixels: np.ndarray) -> RawBatch:
        axis = draws.label.ndim - 1
        image, unlabeled = sharding.put_own_rows(pixels, mesh, axis)
        label, index = sharding.put_rows((draws.label, draws.index), mesh, axis)
        return RawBatch(image, label, unlabeled, index)

    @contextlib.contextmanager
    def batches(draws: Draws):
        with streams.batches(
            source.read, draws, steps_per_call=steps_per_call, **common
        ) as calls:
            yield (
                (put(part, image, unlabeled), count)
                for part, count, image, unlabeled in calls
            )

    def in_order(split, indices, batch_size):
        with streams.in_order(
            source.read, split, indices, batch_size=batch_size, **common
        ) as images:
            for chunk in images:
                yield sharding.put_own_rows(chunk, mesh)

    return Feed(batches, in_order)
