"""A balanced assignment, with the potentials that give it and its error."""

from __future__ import annotations

import jax

from upsilon_jax.kernels.arguments import (
    ArrayLike,
    Scalar,
    check_num_iters,
    check_problem,
)
from upsilon_jax.kernels.balance import check_tolerance
from upsilon_jax.kernels.balance import solve as solve_by_newton
from upsilon_jax.kernels.meshes import on_any_mesh
from upsilon_jax.kernels.relaxed import (
    check_terms,
    demand,
    demand_error,
    make_columns,
    with_rest,
    without_rest,
)
from upsilon_jax.kernels.samples import make_samples
from upsilon_jax.kernels.sinkhorn import solve as solve_by_sinkhorn
from upsilon_jax.types import Assignment

SOLVERS = ("sinkhorn", "newton")


def assign(
    log_probs: ArrayLike,
    *,
    solver: str = "sinkhorn",
    epsilon: Scalar = 0.05,
    num_iters: int = 32,
    tolerance: Scalar = 1e-5,
    where: ArrayLike | None = None,
    relaxation: Scalar | None = None,
    mass: Scalar = 1.0,
) -> Assignment:
    """The plan of `sinkhorn` or `balance`, its potentials and how far it is balanced.

    The K potentials are all that the samples have in common: with them, a sample that
    was not among these finds its clusters by softmax(log P / ε + g). Below ρ = 1, the
    softmax has one more entry, of exponent 0: the share that stays unassigned.

    Args:
      log_probs: [M, K] log P(cluster | sample).
      solver: "sinkhorn", or "newton" for `balance`.
      epsilon: ε of either.
      num_iters: of `sinkhorn`.
      tolerance: of `balance`.
      where: [M] bool, samples that take part; all if None.
      relaxation: λ of either.
      mass: ρ of either.

    Returns:
      The plan, which is that of the other two functions to the bit; the potentials;
      and the largest relative error of a cluster's mass. Clusters that no sample can
      reach do not count. Plan and potentials have derivatives, the error has none.

    Example:
      Two clusters; all samples prefer the first. A fifth sample takes the second.

      >>> import numpy as np
      >>> log_probs = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
      >>> plan, g, error = assign(log_probs, solver="newton")
      >>> print(np.array(plan).argmax(axis=1), error <= 1e-5)
      [0 0 1 1] True
      >>> print((np.log([0.65, 0.35]) / 0.05 + g).argmax())
      1
    """
    log_probs, where, epsilon = check_problem(log_probs, epsilon, where)
    terms = check_terms(epsilon, relaxation, mass)
    log_probs, level = with_rest(log_probs, where, epsilon, terms)
    if solver == "sinkhorn":
        num_iters = check_num_iters(num_iters)
        plan, g = solve_by_sinkhorn(log_probs, where, epsilon, terms, num_iters)
    elif solver == "newton":
        tolerance = check_tolerance(tolerance)
        plan, g = solve_by_newton(log_probs, where, epsilon, terms, tolerance)
    else:
        raise ValueError(f"solver must be one of {SOLVERS}, got {solver!r}")
    error = _error(*jax.lax.stop_gradient((plan, g)), log_probs, where, terms)
    g = g - g.mean() if terms.mass is None else g[:-1] - (g[-1] + level)
    return Assignment(without_rest(plan, terms), g, error)


@jax.jit
@on_any_mesh(rows=False)
def _error(plan, g, log_probs, where, terms):
    columns = make_columns(make_samples(log_probs, where, 1.0), terms)
    wanted = demand(columns, g)
    return demand_error(columns, plan.sum(axis=0) - wanted, wanted)
