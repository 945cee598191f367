"""Pseudo-labels for confident rows: all of them (PL), or equally many a class (RPL)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.arguments import ArrayLike, Scalar
from upsilon_jax.kernels.confidence import SCORES, check_rows
from upsilon_jax.kernels.meshes import on_any_mesh
from upsilon_jax.types import PseudoLabels

_DIGIT_BITS = 8  # 256 counts a class and round; a float32 takes four rounds
_NUM_DIGITS = 1 << _DIGIT_BITS


def pseudo_label(
    logits: ArrayLike,
    num_classes: int,
    *,
    threshold: Scalar = 0.95,
    score: str = "confidence",
    where: ArrayLike | None = None,
) -> PseudoLabels:
    """Labels every confident row with its most probable ID class (Eq. 2).

        y' = argmax_{y<C} f(y|x)   if c(x) > τ,   f = softmax over all T outputs

    Args:
      logits: [M, T] with T ≥ num_classes; computes in float32 at least.
      num_classes: C, the number of ID classes, which are the first outputs.
      threshold: τ. In [0, 1], for "entropy" at most 0.
      score: what exceeds τ. "confidence" is c(x); "entropy" and "margin" are those of
        all T outputs, and the row must have its largest output among the ID classes.
      where: [M] bool, rows that may be labeled; all if None.

    Returns:
      label [M] int32 and weight [M] float32, -1 and 0 for the other rows, among them
      all with a non-finite logit.

    Example:
      Two classes and an extra output; the last row is not sure of either.

      >>> import numpy as np
      >>> logits = np.array([[7, 0, 0], [9, 0, 0], [8, 0, 0], [0, 6, 0], [1, 0, 1]])
      >>> label, weight = pseudo_label(logits, num_classes=2)
      >>> print(label, weight)
      [ 0  0  0  1 -1] [1. 1. 1. 1. 0.]
    """
    logits, where = check_rows(logits, num_classes, threshold, score, where)
    return _pseudo_label(logits, where, threshold, num_classes=num_classes, score=score)


def rebalance(
    logits: ArrayLike,
    num_classes: int,
    *,
    threshold: Scalar = 0.95,
    score: str = "confidence",
    where: ArrayLike | None = None,
) -> PseudoLabels:
    """Labels the N most confident rows of every ID class (RPL, Eqs. 4-6).

        N = min_{y<C} #{x : y = argmax_{k<C} f(k|x), f(y|x) > τ}

    so N = 0 labels nothing. For τ ≥ 0.5 the condition on the argmax always holds.

    Differs from the paper: it keeps all f(y|x) ≥ τ_y, the N-th largest, which are many
    more than N once the softmax saturates. Here rows are ranked by an unsaturated
    function of their score (for "confidence" the log-odds), ties go to the lowest row,
    and every class gets exactly N.

    Arguments and results are those of `pseudo_label`, whose labels contain these.

    Example:
      Class 1 has one confident row, so class 0 keeps one of its three: the surest.

      >>> import numpy as np
      >>> logits = np.array([[7, 0, 0], [9, 0, 0], [8, 0, 0], [0, 6, 0], [1, 0, 1]])
      >>> label, weight = rebalance(logits, num_classes=2)
      >>> print(label, weight)
      [-1  0 -1  1 -1] [0. 1. 0. 1. 0.]
    """
    logits, where = check_rows(logits, num_classes, threshold, score, where)
    return _rebalance(logits, where, threshold, num_classes=num_classes, score=score)


@partial(jax.jit, static_argnames=("num_classes", "score"))
@on_any_mesh
def _pseudo_label(logits, where, threshold, *, num_classes, score):
    label, value, _ = SCORES[score](logits, num_classes)
    return labeled(label, where & (value > threshold) & (label < num_classes))


@partial(jax.jit, static_argnames=("num_classes", "score"))
@on_any_mesh
def _rebalance(logits, where, threshold, *, num_classes, score):
    label, value, rank = SCORES[score](logits, num_classes)
    candidate = where & (value > threshold) & (label < num_classes)
    return select(label, candidate, rank, num_classes)


def select(
    label: jax.Array, candidate: jax.Array, rank: jax.Array, num_classes: int
) -> PseudoLabels:
    """Of the candidates [M] of each class the N of highest rank, ties by lowest row."""
    label = jnp.where(candidate, label, 0)
    count = jnp.zeros(num_classes, jnp.int32).at[label].add(candidate)
    row = jnp.arange(label.size, dtype=jnp.uint32)
    digits = jnp.stack(
        _digits(_ordered_bits(rank), 8 * rank.dtype.itemsize)
        + _digits(~row, label.size.bit_length())  # not: the lowest row is the largest
    )
    return labeled(label, _largest(digits, label, candidate, count.min(), num_classes))


def labeled(label: jax.Array, selected: jax.Array) -> PseudoLabels:
    """Weight 1 where selected; label -1 and weight 0 elsewhere."""
    return PseudoLabels(jnp.where(selected, label, -1), selected.astype(jnp.float32))


def _largest(digits, group, member, quota, num_groups):
    """[M] bool, the `quota` largest members of every group.

    A number is a column of digits [D, M], most significant first. Each round counts the
    members of every group by their next digit and finds the one at which the quota is
    reached: rows with a larger digit are in, with a smaller one out, with that digit
    still open. All it needs of the rows is counts, so they may live on many devices.
    """

    def narrow(state, digit):
        chosen, undecided, needed = state
        count = jnp.zeros(num_groups * _NUM_DIGITS, jnp.int32)
        count = count.at[group * _NUM_DIGITS + digit].add(undecided)
        count = count.reshape(num_groups, _NUM_DIGITS)
        at_least = jax.lax.cumsum(count, axis=1, reverse=True)
        cut = (at_least >= needed[:, None]).sum(axis=1, dtype=jnp.int32) - 1
        above = (jnp.arange(_NUM_DIGITS)[None, :] > cut[:, None]) * count
        needed -= above.sum(axis=1, dtype=jnp.int32)
        chosen |= undecided & (digit > cut[group])
        undecided &= digit == cut[group]
        return (chosen, undecided, needed), None

    start = jnp.zeros_like(member), member, jnp.full(num_groups, quota)
    (chosen, undecided, needed), _ = jax.lax.scan(narrow, start, digits)
    return chosen | (undecided & (needed > 0)[group])


def _digits(number, num_bits):
    shifts = reversed(range(0, num_bits, _DIGIT_BITS))
    return [(number >> shift).astype(jnp.uint8) for shift in shifts]


def _ordered_bits(x):
    """Unsigned integers in the order of the floats x; -0 equals 0."""
    x = jnp.where(x == 0, 0, x)
    unsigned = jnp.dtype(f"uint{8 * x.dtype.itemsize}")
    bits = jax.lax.bitcast_convert_type(x, unsigned)
    sign = unsigned.type(1 << (8 * x.dtype.itemsize - 1))
    return jnp.where(bits & sign, ~bits, bits | sign)
