"""Entropic transport with ott-jax and POT: the same iterations, from the same start."""

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
    log_probs: jax.Array, epsilon: float, num_iters: int
) -> dict[str, Callable[[], jax.Array | np.ndarray]]:
    """Name -> call that gives Q [M, K] after exactly so many iterations.

    No peer looks at its error more often than it must, which is to its advantage. POT's
    log-domain form is left out: it is ten times slower than that of ott.
    """
    return {
        "ott-jax lse": functools.partial(
            _ott(epsilon, num_iters, lse_mode=True), log_probs
        ),
        "ott-jax kernel": functools.partial(
            _ott(epsilon, num_iters, lse_mode=False), log_probs
        ),
        "POT": _pot(log_probs, epsilon, num_iters, "sinkhorn", np.float32),
        "POT float64": _pot(log_probs, epsilon, num_iters, "sinkhorn", np.float64),
        "POT stabilized": _pot(
            log_probs,
            epsilon,
            num_iters,
            "sinkhorn_stabilized",
            np.float64,
            print_period=num_iters,  # between two looks at the error
            tau=1e3 * log_probs.size,  # folds scalings in when needed, not every time
        ),
    }


def _ott(epsilon: float, num_iters: int, *, lse_mode: bool) -> Callable:
    solver = sinkhorn.Sinkhorn(
        lse_mode=lse_mode,
        threshold=-1.0,  # never reached
        min_iterations=num_iters,
        max_iterations=num_iters,
        inner_iterations=num_iters,
    )

    @jax.jit
    def solve(log_probs):
        space = geometry.Geometry(cost_matrix=-log_probs, epsilon=epsilon)
        return solver(linear_problem.LinearProblem(space)).matrix

    return solve


def _pot(log_probs, epsilon, num_iters, method, dtype, **options) -> Callable:
    cost = -np.asarray(log_probs, dtype)
    rows, columns = cost.shape
    uniform = lambda size: np.full(size, 1 / size, dtype)

    def solve() -> np.ndarray:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # results are checked by the caller
            return ot.sinkhorn(
                uniform(rows),
                uniform(columns),
                cost,
                epsilon,
                method=method,
                numItermax=num_iters,
                stopThr=0,
                warn=False,
                **options,
            )

    return solve


def mass_error(plan: jax.Array | np.ndarray) -> float:
    """max_k |K · column sum - 1|; NaN if the rows do not sum to 1/M."""
    plan = np.asarray(plan)
    rows, columns = plan.shape
    sums = plan.sum(axis=1, dtype=np.float64) * rows
    # Columns are compared; rows only have to be about right.
    if not np.all(np.abs(sums - 1) < 1e-2):
        return float("nan")
    return float(np.abs(columns * plan.sum(axis=0, dtype=np.float64) - 1).max())


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def iterations_needed(
    log_probs: jax.Array, epsilon: float, tolerance: float, limit: int
) -> tuple[jax.Array, jax.Array]:
    """Sinkhorn iterations until the mass error is within `tolerance`, or `limit`.

    Returns:
      Their number, and the error after them. The error of an iteration shows in the
      next column update: K · column sum = exp(g - next g).
    """
    exponent = log_probs / epsilon
    log_rows, log_columns = jnp.log(exponent.shape[0]), jnp.log(exponent.shape[1])

    def update_columns(f):
        return -log_columns - jax.nn.logsumexp(exponent + f[:, None], axis=0)

    def iterate(state):
        step, g, _ = state
        f = -log_rows - jax.nn.logsumexp(exponent + g[None, :], axis=1)
        new = update_columns(f)
        return step + 1, new, jnp.abs(jnp.expm1(g - new)).max()

    unfinished = lambda state: (state[0] < limit) & ~(state[2] <= tolerance)
    start = 0, update_columns(jnp.zeros_like(exponent[:, 0])), jnp.inf
    step, _, error = jax.lax.while_loop(unfinished, iterate, start)
    return step, error
