"""Transport to sizes that are drawn, not forced, with ott-jax and POT."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import ot
from ott.geometry import geometry
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn


def solvers(
    log_probs: jax.Array, epsilon: float, relaxation: float, num_iters: int
) -> dict[str, Callable[[], jax.Array | np.ndarray]]:
    """Name -> call that gives Q [M, K] after exactly so many iterations."""
    pot = functools.partial(_pot, log_probs, epsilon, relaxation, num_iters)
    ott = functools.partial(_ott, epsilon, relaxation, num_iters)
    return {
        "ott-jax lse": functools.partial(ott(lse_mode=True), log_probs),
        "ott-jax kernel": functools.partial(ott(lse_mode=False), log_probs),
        "POT": pot("sinkhorn", np.float32),
        "POT float64": pot("sinkhorn", np.float64),
    }


def _ott(epsilon, relaxation, num_iters, *, lse_mode) -> Callable:
    solver = sinkhorn.Sinkhorn(
        lse_mode=lse_mode,
        threshold=-1.0,  # never reached
        min_iterations=num_iters,
        max_iterations=num_iters,
        inner_iterations=num_iters,
    )
    tau = relaxation / (relaxation + epsilon)

    @jax.jit
    def solve(log_probs):
        space = geometry.Geometry(cost_matrix=-log_probs, epsilon=epsilon)
        plan = solver(linear_problem.LinearProblem(space, tau_b=tau)).matrix
        return _with_exact_rows(plan)

    return solve


def _pot(log_probs, epsilon, relaxation, num_iters, method, dtype) -> Callable:
    cost = -np.asarray(log_probs, dtype)
    uniform = [np.full(size, 1 / size, dtype) for size in cost.shape]

    def solve() -> np.ndarray:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # results are checked by the caller
            plan = ot.unbalanced.sinkhorn_unbalanced(
                *uniform,
                cost,
                epsilon,
                (float("inf"), relaxation),
                method=method,
                reg_type="entropy",
                numItermax=num_iters,
                stopThr=0,
            )
        return _with_exact_rows(plan)

    return solve


def _with_exact_rows(plan):
    """As a last row update: these peers end with one of the columns."""
    return plan / (plan.shape[0] * plan.sum(axis=1, keepdims=True))


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def iterations_needed(
    log_probs: jax.Array,
    epsilon: float,
    relaxation: float,
    tolerance: float,
    limit: int,
) -> tuple[jax.Array, jax.Array]:
    """Sinkhorn iterations until max_k |mass / d_k - 1| is within `tolerance`.

    Returns:
      Their number, at most `limit`, and the error after them.
    """
    exponent = log_probs / epsilon
    damping = relaxation / (relaxation + epsilon)

    def masses_of(g):
        return jax.nn.softmax(exponent + g[None, :], axis=1).mean(axis=0)

    def iterate(state):
        step, g, _ = state
        g = damping * (g - jnp.log(masses_of(g)))
        demand = jax.nn.softmax(-epsilon / relaxation * g)
        return step + 1, g, jnp.abs(masses_of(g) / demand - 1).max()

    unfinished = lambda state: (state[0] < limit) & ~(state[2] <= tolerance)
    start = 0, jnp.zeros_like(exponent[0]), jnp.inf
    step, _, error = jax.lax.while_loop(unfinished, iterate, start)
    return step, error


def plan_error(plan: np.ndarray, expected: np.ndarray) -> float:
    """The largest relative error of a cluster's mass, by a converged plan."""
    masses, wanted = (np.asarray(q, np.float64).sum(axis=0) for q in (plan, expected))
    return float(np.abs(masses / wanted - 1).max())
