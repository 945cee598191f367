"""Pixels onto the devices: resident or streamed, behind one interface.

Resident: all images lie on every device as uint8 and are gathered by index. Streamed:
they come from disk batch by batch. Both give the same uint8 batches to the same
compiled step, so the same seed gives the same run. With several processes, streamed
images are read by the process whose devices need them, resident ones by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from upsilon_jax.data.source import Source
from upsilon_jax.data.streams import HostBatch, Read, in_order
from upsilon_jax.runtime import sharding
from upsilon_jax.training.step import RawBatch, RawBatches


class Feed(NamedTuple):
    """How a run gets its images."""

    batch: Callable[[HostBatch], RawBatch]  # arrays may be [S, ...]: see `several`
    # (split, indices [n], batch_size) -> uint8 [batch_size, H, W, C] on the devices,
    # in order; the last one is filled up with its own last image
    in_order: Callable[[str, np.ndarray, int], Iterator[jax.Array]]
    read: Read | None  # what a `Pipeline` should read pixels with, None if resident


def resident(source: Source, mesh: Mesh, gather: Callable) -> Feed:
    """All images of the source on every device."""
    everything = lambda labels: np.arange(len(labels))
    images = {
        "train": source.read("train", everything(source.train_labels)),
        "test": source.read("test", everything(source.test_labels)),
    }
    images = sharding.replicate(images, mesh)

    def batch(host: HostBatch) -> RawBatch:
        labeled, label, unlabeled, index = sharding.put_rows(
            (host.labeled.astype(np.int32), host.label)
            + (host.unlabeled.astype(np.int32), host.index),
            mesh,
            axis=host.label.ndim - 1,
        )
        return RawBatch(
            image=gather(images["train"], labeled),
            label=label,
            unlabeled=gather(images["train"], unlabeled),
            index=index,
        )

    def chunks(split, indices, batch_size):
        for start in range(0, len(indices), batch_size):
            chunk = indices[start : start + batch_size].astype(np.int32)
            chunk = np.pad(chunk, (0, batch_size - len(chunk)), mode="edge")
            yield gather(images[split], sharding.put_rows(chunk, mesh))

    return Feed(batch, chunks, None)


def streamed(source: Source, mesh: Mesh, *, prefetch_bytes: int) -> Feed:
    """Images read when they are needed, a bounded number of bytes ahead."""

    def batch(host: HostBatch) -> RawBatch:
        axis = host.label.ndim - 1
        image, unlabeled = sharding.put_own_rows(
            (host.image, host.unlabeled_image), mesh, axis
        )
        label, index = sharding.put_rows((host.label, host.index), mesh, axis)
        return RawBatch(image, label, unlabeled, index)

    def chunks(split, indices, batch_size):
        with in_order(
            source.read,
            split,
            indices,
            batch_size=batch_size,
            image_shape=source.image_shape,
            prefetch_bytes=prefetch_bytes,
            shard=sharding.own_share(),
        ) as images:
            for chunk in images:
                yield sharding.put_own_rows(chunk, mesh)

    return Feed(batch, chunks, source.read)


def several(
    feed: Feed, hosts: Sequence[HostBatch], size: int, mesh: Mesh
) -> RawBatches:
    """At most `size` batches for one call; the last one again fills up the arrays."""
    filled = [*hosts, *[hosts[-1]] * (size - len(hosts))]
    stack = lambda *arrays: None if arrays[0] is None else np.stack(arrays)
    batch = feed.batch(HostBatch(*map(stack, *filled)))
    return RawBatches(batch, sharding.replicate(np.int32(len(hosts)), mesh))
