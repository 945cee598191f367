"""How sure the classifier is of a row: ID confidence, negative entropy and margin.

Each score has two forms. `value` is what the paper compares with a threshold; in
float32 it saturates once the largest logit leads by about 17. `rank` is an increasing
function of it that does not, so that confident rows can still be told apart.

With y the label of a row, m = max_{k≠y} z_k and S = Σ_{k≠y} exp(z_k - m), all follows
from the gap z_y - m and from S, never from the difference of two numbers near 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from upsilon_jax.kernels.arguments import (
    ArrayLike,
    Scalar,
    check_number,
    check_where,
    to_float,
)
from upsilon_jax.kernels.rows import by_rows


class Score(NamedTuple):
    """Label and score of every row; -1 and NaN for rows with non-finite logits."""

    label: jax.Array  # [M] int32
    value: jax.Array  # [M], a NaN is neither above nor below any threshold
    rank: jax.Array  # [M], increases with `value`


def id_confidence(logits: jax.Array, num_classes: int) -> Score:
    """c(x) = max_{y<C} f(y|x), f = softmax over all T outputs (Eq. 1).

    Args:
      logits: [M, T] with T ≥ C.
      num_classes: C, the label is the most probable of the first C outputs.

    Returns:
      `rank` is the log-odds log(c / (1 - c)) = z_y - logsumexp_{k≠y} z_k.
    """
    label, own, other, rest = _top_label(logits, jnp.int32(num_classes))
    gap = own - other
    confidence = 1 / (1 + rest * jnp.exp(-gap))
    confidence = jnp.maximum(confidence, jnp.finfo(gap.dtype).tiny)  # it is never 0
    return _score(label, confidence, gap - jnp.log(rest))


def negative_entropy(logits: jax.Array, num_classes: int) -> Score:
    """h(x) = Σ_k f(k|x) log f(k|x) in [-log T, 0], over all T outputs.

    With p = 1 - f(y|x) and H_rest the entropy among the other outputs,

        -h = p · (-log p + H_rest + (1 - p) · -log(1 - p) / p),

    and `rank` is -log(-h), taken factor by factor.

    Args:
      logits: [M, T].
      num_classes: unused, the label is the most probable of all T outputs.
    """
    label, own, other, rest = _top_label(logits, jnp.int32(logits.shape[1]))
    log_ratio = jnp.minimum(logits - other[:, None], 0)  # 0 for y: it adds nothing
    ratio = jnp.exp(log_ratio)
    mean_log = jnp.where(ratio > 0, ratio * log_ratio, 0).sum(axis=1) / rest
    rest_entropy = jnp.log(rest) - mean_log
    log_odds = own - other - jnp.log(rest)
    p = jax.nn.sigmoid(-log_odds)
    top = jnp.where(p == 0, 1, (1 - p) * -jnp.log1p(-p) / jnp.where(p == 0, 1, p))
    minus_log_p = jax.nn.softplus(log_odds)
    rank = minus_log_p - jnp.log(minus_log_p + rest_entropy + top)
    rank = jnp.where(jnp.isposinf(log_odds), jnp.inf, rank)
    return _score(label, -jnp.exp(-rank), rank)


def margin(logits: jax.Array, num_classes: int) -> Score:
    """d(x) = f_(1) - f_(2) in [0, 1], largest less second largest of all T outputs.

        d = (1 - r) / (1 + S r)   and   1 - d = (1 + S) r / (1 + S r),   r = exp(-gap)

    Args:
      logits: [M, T] with T ≥ 2.
      num_classes: unused, the label is the most probable of all T outputs.

    Returns:
      `rank` is log(d / (1 - d)).
    """
    if logits.shape[1] < 2:
        raise ValueError(f"a margin needs at least 2 outputs, got {logits.shape}")
    label, own, other, rest = _top_label(logits, jnp.int32(logits.shape[1]))
    gap = own - other
    lead = -jnp.expm1(-gap)
    difference = lead / (1 + rest * jnp.exp(-gap))
    log_odds = jnp.log(lead) + gap - jnp.log1p(rest)
    return _score(label, difference, log_odds)


SCORES = {"confidence": id_confidence, "entropy": negative_entropy, "margin": margin}
# Values of each score, and so of a threshold on it.
RANGES = {
    "confidence": (0.0, 1.0),
    "entropy": (-float("inf"), 0.0),
    "margin": (0.0, 1.0),
}


def check_rows(
    logits: ArrayLike,
    num_classes: int,
    threshold: Scalar,
    score: str,
    where: ArrayLike | None,
) -> tuple[jax.Array, jax.Array]:
    """Checks the arguments that all selections share; fills in `where`."""
    logits = jax.lax.stop_gradient(to_float(logits))  # a selection has no derivative
    if logits.ndim != 2 or not 1 <= num_classes <= logits.shape[1]:
        raise ValueError(
            f"logits must be [M, T ≥ num_classes ≥ 1], got {logits.shape} for "
            f"num_classes = {num_classes}"
        )
    if score not in SCORES:
        raise ValueError(f"score must be one of {sorted(SCORES)}, got {score!r}")
    known = not isinstance(threshold, jax.core.Tracer)
    # An array may be an estimate, and NaN: then no row is beyond it.
    if not (known and isinstance(threshold, jax.Array) and np.isnan(threshold).all()):
        check_number(f"threshold of score {score!r}", threshold, *RANGES[score])
    return logits, check_where(where, logits.shape[0])


def _score(label, value, rank):
    return Score(label, jnp.where(label < 0, jnp.nan, value), rank)


def _plain_top_label(logits, num_labels):
    """[M] y < num_labels, -1 if a logit is not finite, and z_y, m and S."""
    is_label = jnp.arange(logits.shape[1])[None, :] < num_labels
    own, label, second = _top_two(jnp.where(is_label, logits, -jnp.inf))
    other = jnp.maximum(second, jnp.where(is_label, -jnp.inf, logits).max(axis=1))
    # S is the sum over all k less the term of y, which needs no mask over [M, T]. That
    # term is at most 1 and S ≥ 1: the difference loses no more than one rounding.
    ratio = jnp.exp(jnp.minimum(logits - other[:, None], 0))
    rest = ratio.sum(axis=1) - jnp.exp(jnp.minimum(own - other, 0))
    return jnp.where(_finite(logits), label, -1), own, other, rest


_top_label = by_rows("rows_top_label", _plain_top_label, "m k, -> m, m, m, m")


def _top_two(x):
    """Largest entry of every row, its first index and the second largest: one pass."""

    def merge(a, b):
        (a_first, a_index, a_second), (b_first, b_index, b_second) = a, b
        b_wins = (b_first > a_first) | ((b_first == a_first) & (b_index < a_index))
        second = jnp.maximum(
            jnp.minimum(a_first, b_first), jnp.where(b_wins, b_second, a_second)
        )
        index = jnp.where(b_wins, b_index, a_index)
        return jnp.where(b_wins, b_first, a_first), index, second

    nothing = jnp.array(-jnp.inf, x.dtype)
    no_index = jnp.array(jnp.iinfo(jnp.int32).max, jnp.int32)
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    operands = x, index, jnp.full_like(x, -jnp.inf)
    return jax.lax.reduce(operands, (nothing, no_index, nothing), merge, (1,))


def _finite(logits):
    # 0 · ±inf and 0 · NaN are NaN. A maximum would do by its definition, but XLA:CPU
    # passes over NaN in maxima and minima of long rows (jax 0.10.2).
    return jnp.sum(0 * logits, axis=1) == 0
