"""Which images come when: pure functions of the seed and the position in the run.

Nothing is stored between steps, so a run resumed at any step draws what an
uninterrupted one would have drawn. Orders come from the raw 64-bit output of PCG64
seeded through SeedSequence: numpy guarantees both streams across versions, which it
does not for `Generator.permutation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from upsilon_jax.errors import ConfigError


class Draws(NamedTuple):
    """Which images S steps take."""

    labeled: np.ndarray  # [S, B] int64, into the train images
    label: np.ndarray  # [S, B] int32 in [0, C)
    unlabeled: np.ndarray  # [S, M] int64, into the train images
    # [S, M] int32, positions in D_u; M = 0 if supervised; hides tuple.index
    index: np.ndarray  # type: ignore[assignment]


def permutation(n: int, *, seed: int, stream: str, counter: int = 0) -> np.ndarray:
    """A random order of 0 .. n-1, [n] int64.

    Args:
      n: how many.
      seed: the run's seed, ≥ 0.
      stream: what the order is for; different streams are independent.
      counter: which order of the stream, ≥ 0.
    """
    bits = random_bits(n, seed=seed, stream=stream, counter=counter)
    return np.argsort(bits, kind="stable")


def random_bits(n: int, *, seed: int, stream: str, counter: int = 0) -> np.ndarray:
    """[n] uint64 of independent random bits; the arguments are as above."""
    if seed < 0:
        raise ConfigError(f"seed={seed}: must not be negative")
    name = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
    bits = np.random.PCG64(np.random.SeedSequence([seed, name, counter]))
    return bits.random_raw(n)


def permuted(n: int, start: int, count: int, *, seed: int, stream: str) -> np.ndarray:
    """Positions start .. start+count-1 of endless permutations of 0 .. n-1, [count].

    Drawing without replacement, shuffled anew whenever all have been drawn.
    """
    if n < 1:
        raise ValueError(f"cannot draw from {n} images ({stream})")
    first, last = start // n, (start + count - 1) // n
    orders = [
        permutation(n, seed=seed, stream=stream, counter=block)
        for block in range(first, last + 1)
    ]
    begin = start - first * n
    return np.concatenate([*orders, np.empty(0, np.int64)])[begin : begin + count]


def labeled_indices(
    n: int, batch: int, step: int, seed: int, *, num_steps: int = 1
) -> np.ndarray:
    """Positions among the n labeled images of steps step .. step+num_steps-1.

    Permutations are concatenated over the whole run, across epochs.

    Returns:
      [num_steps, batch] int64.
    """
    drawn = permuted(n, step * batch, num_steps * batch, seed=seed, stream="labeled")
    return drawn.reshape(num_steps, batch)


def unlabeled_indices(
    members: np.ndarray, batch: int, epoch: int, steps_per_epoch: int, seed: int
) -> np.ndarray:
    """The unlabeled images of one epoch, drawn from `members`.

    Every member comes once before any comes twice, so all come if they fit.

    Args:
      members: [p] positions in D_u.
      batch: images of a step.
      epoch: number of the epoch, from 0.
      steps_per_epoch: steps to draw for.
      seed: the run's seed.

    Returns:
      [steps_per_epoch, batch] int64.
    """
    count = steps_per_epoch * batch
    stream = f"unlabeled/{epoch}"
    drawn = permuted(len(members), 0, count, seed=seed, stream=stream)
    return np.asarray(members)[drawn].reshape(steps_per_epoch, batch)


def draw_epoch(
    labeled: np.ndarray,
    label: np.ndarray,
    unlabeled: np.ndarray,
    positions: np.ndarray,
    *,
    batch_size: int,
    epoch: int,
    steps_per_epoch: int,
    seed: int,
    start: int = 0,
    unlabeled_ratio: int = 1,
) -> Draws:
    """The draws of an epoch from a given step on.

    Args:
      labeled: [n] `Splits.labeled`.
      label: [n] int32, their labels in [0, C).
      unlabeled: [N] `Splits.unlabeled`.
      positions: [p] positions in D_u to draw from; none for a supervised epoch.
      batch_size: B.
      epoch: number of the epoch, from 0.
      steps_per_epoch: S of a whole epoch.
      seed: the run's seed.
      start: the first step of the epoch to draw, > 0 when resuming.
      unlabeled_ratio: μ; M = μ B.
    """
    if not 0 <= start <= steps_per_epoch:
        raise ValueError(f"start={start}: an epoch has {steps_per_epoch} steps")
    num_steps = steps_per_epoch - start
    rows = labeled_indices(
        len(labeled),
        batch_size,
        epoch * steps_per_epoch + start,
        seed,
        num_steps=num_steps,
    )
    index = np.zeros((num_steps, 0), np.int64)
    if len(positions):
        rows_of_step = unlabeled_ratio * batch_size
        index = unlabeled_indices(positions, rows_of_step, epoch, steps_per_epoch, seed)
        index = index[start:]
    return Draws(
        labeled=np.asarray(labeled)[rows],
        label=np.asarray(label)[rows],
        unlabeled=np.asarray(unlabeled)[index],
        index=index.astype(np.int32),
    )


def in_calls(draws: Draws, size: int) -> Iterator[tuple[Draws, int]]:
    """The draws of `size` steps at a time, and how many of them count.

    The last call is filled up by repeating the last step. With `size` 1 the first axis
    is dropped.
    """
    num_steps = len(draws.label)
    for start in range(0, num_steps, size):
        steps = np.minimum(np.arange(start, start + size), num_steps - 1)
        rows = steps if size > 1 else start
        yield Draws(*(part[rows] for part in draws)), min(size, num_steps - start)
