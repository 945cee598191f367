"""Cluster labels for rows that fit no ID class (SEC)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.arguments import ArrayLike, Scalar
from upsilon_jax.kernels.assign import SOLVERS
from upsilon_jax.kernels.balance import balance
from upsilon_jax.kernels.confidence import SCORES, check_rows
from upsilon_jax.kernels.meshes import on_any_mesh
from upsilon_jax.kernels.rebalance import labeled
from upsilon_jax.kernels.relaxed import check_terms
from upsilon_jax.kernels.sinkhorn import sinkhorn
from upsilon_jax.types import PseudoLabels

# Entries of Q this close are equal: they come from float32 sums over up to 1e6 rows.
_EQUAL = 1e-5


def explore(
    logits: ArrayLike,
    num_classes: int,
    *,
    threshold: Scalar = 0.3,
    epsilon: Scalar = 0.05,
    num_iters: int = 32,
    solver: str = "sinkhorn",
    score: str = "confidence",
    where: ArrayLike | None = None,
    relaxation: Scalar | None = None,
    mass: Scalar = 1.0,
) -> PseudoLabels:
    """Labels unconfident rows with balanced clusters on the K extra outputs (Eqs. 7-8).

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
      relaxation: λ of the assignment, not in the paper: clusters may differ in size.
      mass: ρ of the assignment, likewise: only the most decided rows have a label.

    Returns:
      label [M] int32 in [C, T) and weight [M] float32, -1 and 0 outside S and for rows
      with a non-finite logit. A row without preference (all of Q equal) takes its index
      modulo K. The weight is 1; below ρ = 1 it is the share m Σ_k Q_ik of a row that is
      assigned, and a row of which that is less than half has no label.

    Example:
      The first row is of class 0. The others prefer the first of the two clusters,
      output 2; the two that do so least get the second, output 3.

      >>> import numpy as np
      >>> logits = np.array([[9, 0, 0, 0], [0, 0, 4, 3], [0, 0, 4, 2], [0, 0, 4, 1],
      ...                    [0, 0, 4, 0]])
      >>> label, weight = explore(logits, num_classes=2)
      >>> print(label, weight)
      [-1  3  3  2  2] [0. 1. 1. 1. 1.]
    """
    logits, where = check_rows(logits, num_classes, threshold, score, where)
    problem: dict[str, Any]
    problem = {"epsilon": epsilon, "relaxation": relaxation, "mass": mass}
    solve: Callable[..., jax.Array]
    if solver == "sinkhorn":
        solve = partial(sinkhorn, num_iters=num_iters, **problem)
    elif solver == "newton":
        solve = partial(balance, **problem)
    else:
        raise ValueError(f"solver must be one of {SOLVERS}, got {solver!r}")
    num_clusters = logits.shape[1] - num_classes
    if num_clusters == 0:
        nothing = jnp.zeros_like(where)
        return labeled(nothing.astype(jnp.int32), nothing)
    selected = _unconfident(
        logits, where, threshold, num_classes=num_classes, score=score
    )
    plan = solve(_log_probs(logits, num_classes=num_classes), where=selected)
    partial_rows = check_terms(epsilon, relaxation, mass).mass is not None
    return _harden(plan, selected, num_classes=num_classes, partial_rows=partial_rows)


@partial(jax.jit, static_argnames=("num_classes", "score"))
@on_any_mesh
def _unconfident(logits, where, threshold, *, num_classes, score):
    label, value, _ = SCORES[score](logits, num_classes)
    return where & ((value < threshold) | (label >= num_classes))


@partial(jax.jit, static_argnames="num_classes")
@on_any_mesh
def _log_probs(logits, *, num_classes):
    return jax.nn.log_softmax(logits[:, num_classes:], axis=1)


@partial(jax.jit, static_argnames=("num_classes", "partial_rows"))
@on_any_mesh
def _harden(plan, selected, *, num_classes, partial_rows):
    """Labels C + argmax_k Q_k of the selected rows, in turn where all are equal.

    With `partial_rows`, of those only that are assigned for the most part.
    """
    num_rows, num_clusters = plan.shape
    top = plan.max(axis=1)
    undecided = top - plan.min(axis=1) <= _EQUAL * top
    turn = jnp.arange(num_rows, dtype=jnp.int32) % num_clusters
    cluster = jnp.where(undecided, turn, plan.argmax(axis=1).astype(jnp.int32))
    if not partial_rows:
        return labeled(num_classes + cluster, selected)
    share = jnp.minimum(plan.sum(axis=1) * selected.sum(), 1).astype(jnp.float32)
    label, weight = labeled(num_classes + cluster, selected & (share >= 0.5))
    return PseudoLabels(label, weight * share)
