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

from upsilon_jax.kernels.sinkhorn import check_where

_WIDE = 32  # outputs from which on a CPU gains by `_summary_of_wide`


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
    summarize = _summary if logits.shape[1] < _WIDE else _summary_of_wide
    label, gap, rest, *_ = summarize(logits, num_classes)
    confidence = 1 / (1 + rest * jnp.exp(-gap))
    confidence = jnp.maximum(confidence, jnp.finfo(gap.dtype).tiny)  # it is never 0
    return _finite_rows(logits, Score(label, confidence, gap - jnp.log(rest)))


def negative_entropy(logits: jax.Array, num_classes: int) -> Score:
    """h(x) = Σ_k f(k|x) log f(k|x) in [-log T, 0], over all T outputs.

    With p = 1 - f(y|x) and H_rest the entropy among the other outputs,

        -h = p · (-log p + H_rest + (1 - p) · -log(1 - p) / p),

    and `rank` is -log(-h), taken factor by factor.

    Args:
      logits: [M, T].
      num_classes: unused, the label is the most probable of all T outputs.
    """
    label, gap, rest, rest_entropy = _summary(logits, logits.shape[1])
    log_odds = gap - jnp.log(rest)
    p = jax.nn.sigmoid(-log_odds)
    top = jnp.where(p == 0, 1, (1 - p) * -jnp.log1p(-p) / jnp.where(p == 0, 1, p))
    minus_log_p = jax.nn.softplus(log_odds)
    rank = minus_log_p - jnp.log(minus_log_p + rest_entropy + top)
    rank = jnp.where(jnp.isposinf(log_odds), jnp.inf, rank)
    return _finite_rows(logits, Score(label, -jnp.exp(-rank), rank))


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
    label, gap, rest, _ = _summary(logits, logits.shape[1])
    lead = -jnp.expm1(-gap)
    difference = lead / (1 + rest * jnp.exp(-gap))
    log_odds = jnp.log(lead) + gap - jnp.log1p(rest)
    return _finite_rows(logits, Score(label, difference, log_odds))


SCORES = {"confidence": id_confidence, "entropy": negative_entropy, "margin": margin}
_RANGES = {
    "confidence": (0.0, 1.0),
    "entropy": (-float("inf"), 0.0),
    "margin": (0.0, 1.0),
}


def check_rows(
    logits: jax.Array,
    num_classes: int,
    threshold: float,
    score: str,
    where: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    """Checks the arguments that all selections share; fills in `where`."""
    logits = jnp.asarray(logits)
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    if logits.ndim != 2 or not 1 <= num_classes <= logits.shape[1]:
        raise ValueError(
            f"logits must be [M, T ≥ num_classes ≥ 1], got {logits.shape} for "
            f"num_classes = {num_classes}"
        )
    if score not in SCORES:
        raise ValueError(f"score must be one of {sorted(SCORES)}, got {score!r}")
    low, high = _RANGES[score]
    if not low <= threshold <= high:
        raise ValueError(
            f"threshold must be in [{low}, {high}] for score {score!r}, got {threshold}"
        )
    return logits, check_where(where, logits.shape[0])


def _summary_of_wide(logits, num_labels):
    """The same as `_summary`, without the entropy; gap and S share a factor.

    Where z_y leads by 70 or more, exp(z - z_y) leaves float32: then it is `_summary`.
    """
    label, rest = _leader(logits, num_labels)
    usual = (rest > 1e-30) & (rest < 1e30) | ~_finite(logits)
    return jax.lax.cond(
        usual.all(),
        lambda: (label, jnp.zeros_like(rest), rest),
        lambda: _summary(logits, num_labels)[:3],
    )


def _leader(logits, num_labels):
    """(y [M], S = Σ_{k≠y} exp(z_k - z_y)), y < num_labels, ties to the lowest.

    The same as an argmax and a masked sum. On a CPU, XLA runs an argmax ten times
    slower than a maximum, and writes every mask to memory; sums and minima of products
    it computes in one pass.
    """
    huge = jnp.finfo(logits.dtype).max / 2
    index = jnp.arange(logits.shape[1], dtype=logits.dtype)
    labels = logits[:, :num_labels]
    top = labels.max(axis=1)
    # 0 where a label has the largest logit, else 2: twice, as a difference may be as
    # small as the smallest float, which `huge` alone does not bring to 2.
    differs = jnp.minimum(jnp.minimum((top[:, None] - labels) * huge, 2) * huge, 2)
    past = 2.0**22  # half of a number larger than any index
    first = jnp.min(index[None, :num_labels] + past * differs, axis=1)
    # What the sums above and below had in common, XLA would write to memory as an array
    # [M, T]: the differences to `top`, but for the barrier, or just a constant 1.
    top, first = jax.lax.optimization_barrier((top, first))
    other = jnp.minimum(jnp.abs(index[None, :] - first[:, None]), 1)
    rest = jnp.sum(other * jnp.exp(logits - top[:, None]), axis=1)
    return first.astype(jnp.int32), rest


def _summary(logits, num_labels):
    """(y [M], gap = z_y - m, S, entropy of softmax over k ≠ y), y < num_labels."""
    largest, label, second = _top_two(logits[:, :num_labels])
    others = jnp.max(logits[:, num_labels:], axis=1, initial=-jnp.inf)
    others = jnp.maximum(others, second)
    # Where z_y > m its term is exp(0), so that subtracting it loses no more than one
    # rounding of S ≥ 1; no mask over [M, T] is needed.
    log_ratio = jnp.minimum(logits - others[:, None], 0)
    own = jnp.minimum(largest - others, 0)
    ratio = jnp.exp(log_ratio)
    rest = ratio.sum(axis=1) - jnp.exp(own)
    mean_log = jnp.where(ratio > 0, ratio * log_ratio, 0).sum(axis=1) / rest
    return label, largest - others, rest, jnp.log(rest) - mean_log


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


def _finite_rows(logits, score):
    finite = _finite(logits)
    return Score(
        jnp.where(finite, score.label, -1),
        jnp.where(finite, score.value, jnp.nan),
        score.rank,
    )
