"""Cluster labels for rows that fit no ID class (SEC)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.confidence import SCORES, check_rows
from upsilon_jax.kernels.rebalance import labeled
from upsilon_jax.kernels.sinkhorn import sinkhorn
from upsilon_jax.types import PseudoLabels

SOLVERS = ("sinkhorn", "newton")


def explore(
    logits: jax.Array,
    num_classes: int,
    *,
    threshold: float = 0.3,
    epsilon: float = 0.05,
    num_iters: int = 32,
    solver: str = "sinkhorn",
    score: str = "confidence",
    where: jax.Array | None = None,
) -> PseudoLabels:
    """Labels unconfident rows with balanced clusters on the K extra outputs (Eq. 7-8).

        S = {x : c(x) < γ},   ŷ = C + argmax_k Q_k,   Q = sinkhorn(log P) over S

    where P is the softmax of the extra outputs alone, taken from the logits: after
    pre-training their share of f underflows.

    Args:
      logits: [M, T], T = C + K; computes in float32 at least. K = 0 labels nothing.
      num_classes: C, the number of ID classes, which are the first outputs.
      threshold: γ. In [0, 1], for "entropy" at most 0.
      epsilon: ε of the assignment.
      num_iters: of `sinkhorn`; "newton" runs to convergence.
      solver: "sinkhorn", or "newton" for `balance`.
      score: what is below γ. For "entropy" and "margin", rows whose largest output is
        an extra one belong to S as well.
      where: [M] bool, rows that may be labeled; all if None.

    Returns:
      label [M] int32 in [C, T) and weight [M] float32, -1 and 0 outside S. A row
      without preference (all of Q equal) takes its index modulo K.
    """
    logits, where = check_rows(logits, num_classes, threshold, score, where)
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {SOLVERS}, got {solver!r}")
    if solver == "newton":
        from upsilon_jax.kernels.balance import balance

        assign = partial(balance, epsilon=epsilon)
    else:
        assign = partial(sinkhorn, epsilon=epsilon, num_iters=num_iters)
    num_clusters = logits.shape[1] - num_classes
    label, value, _ = SCORES[score](logits, num_classes)
    if num_clusters == 0:
        return labeled(label, jnp.zeros_like(where))
    selected = where & (label >= 0) & ((value < threshold) | (label >= num_classes))
    plan = assign(jax.nn.log_softmax(logits[:, num_classes:]), where=selected)
    undecided = plan.max(axis=1) == plan.min(axis=1)
    turn = jnp.arange(len(plan), dtype=jnp.int32) % num_clusters
    cluster = jnp.where(undecided, turn, plan.argmax(axis=1).astype(jnp.int32))
    return labeled(num_classes + cluster, selected)
