"""Quasi-Newton steps that end `balance`, each as cheap as a `sinkhorn` iteration."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from upsilon_jax.kernels.relaxed import Columns, curvature, demand, demand_error
from upsilon_jax.kernels.samples import Samples, dot, exponents, masses

_MAX_STEPS = 19
_RADIUS = 8.0  # of a step
# Few samples tell little about pairs of clusters: some directions look flat, and steps
# along them overshoot. So entries off the diagonal are reduced by this share.
_SHRINKAGE = 0.3


# K counts columns here: one of them is what rows keep back, if ρ < 1.
class _State(NamedTuple):
    steps: jax.Array | int  # [] int32
    inverse: jax.Array  # [K, K] of the Hessian in z, approximately
    slope: jax.Array  # [K] gradient in z
    u: jax.Array  # [K] change of the potentials
    error: jax.Array  # []
    best_u: jax.Array  # [K]
    best_error: jax.Array  # []


def quasi_newton(
    samples: Samples,
    columns: Columns,
    g: jax.Array,
    pairs: jax.Array,
    tolerance: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Quasi-Newton (BFGS) on the column potentials, from g close to the solution.

    A gradient at g + u takes the masses q there, as an iteration of `sinkhorn` does.
    The steps are in z = Lᵀ u: L Lᵀ is the Hessian near the solution, so that in z it is
    about the identity, where BFGS starts.

    Args:
      samples: M rows.
      columns: their masses.
      g: [K] potentials to start from.
      pairs: [K, K] 1/m Σ_i p_i p_iᵀ, of some samples.
      tolerance: stops at this mass error, or when the error no longer falls.

    Returns:
      The best potentials found, and their mass error.
    """
    # The barrier binds the exponents to g. Else XLA would compute them before the loop
    # around this function, and hold them while Newton's method needs the memory.
    samples, g = jax.lax.optimization_barrier((samples, g))
    extra = curvature(columns, pairs, demand(columns, g))
    rows, lower = exponents(samples), cholesky(pairs, _SHRINKAGE, extra)

    def evaluate(u):
        moved = g + u
        wanted = demand(columns, moved)
        gradient = masses(samples, rows, moved) - wanted
        slope = solve_triangular(lower, gradient, lower=True)
        return slope, demand_error(columns, gradient, wanted)

    def advance(state):
        step = -dot(state.inverse, state.slope)
        move = solve_triangular(lower, step, trans=1, lower=True)
        scale = _RADIUS / jnp.maximum(jnp.abs(move).max(), _RADIUS)
        u = state.u + scale * move
        slope, error = evaluate(u)
        better = error < state.best_error
        return _State(
            steps=state.steps + 1,
            inverse=_bfgs(state.inverse, scale * step, slope - state.slope),
            slope=slope,
            u=u,
            error=error,
            best_u=jnp.where(better, u, state.best_u),
            best_error=jnp.where(better, error, state.best_error),
        )

    def promising(state):
        falling = state.error <= 2 * state.best_error
        more = state.steps < _MAX_STEPS
        return (state.best_error > tolerance) & falling & more

    zeros, eye = jnp.zeros_like(g), jnp.eye(g.size, dtype=g.dtype)
    slope, error = evaluate(zeros)
    start = _State(0, eye, slope, zeros, error, zeros, error)
    end = jax.lax.while_loop(promising, advance, start)
    return g + end.best_u, end.best_error


def _bfgs(inverse, step, change):
    """The inverse Hessian, corrected to map the change of the gradient to the step."""
    moved, scale = dot(inverse, change), step @ change
    correction = (1 + change @ moved / scale) * jnp.outer(step, step)
    correction -= jnp.outer(moved, step) + jnp.outer(step, moved)
    return jnp.where(scale > 0, inverse + correction / scale, inverse)


def cholesky(
    pairs: jax.Array, shrinkage: float = 0.0, curvature: jax.Array | None = None
) -> jax.Array:
    """[K, K] lower L, L Lᵀ = ∇²J, whose null vector (1, ..., 1) is made regular.

    Where rounding makes that fail, ∇²J is taken to be I/K, that of uniform p_i. The
    step is then that of `sinkhorn`.

    Args:
      pairs: [K, K] 1/m Σ_i p_i p_iᵀ.
      shrinkage: by how much ∇²J is drawn to its diagonal, in [0, 1].
      curvature: [K, K] that is added, of relaxed masses.
    """
    num_clusters = len(pairs)
    eye = jnp.eye(num_clusters, dtype=pairs.dtype)
    small = 10 * jnp.finfo(pairs.dtype).eps / num_clusters
    ridge = small if curvature is None else 0
    hessian = jnp.diag(pairs.sum(axis=1) + ridge) - pairs
    hessian = jnp.where(eye > 0, hessian, (1 - shrinkage) * hessian)
    if curvature is not None:
        return _scaled_cholesky(hessian + curvature)
    lower = jnp.linalg.cholesky(hessian + 1 / num_clusters**2)
    return jnp.where(jnp.isfinite(lower).all(), lower, eye / num_clusters**0.5)


def _scaled_cholesky(hessian):
    """The same, where entries of the diagonal may be as unlike as relaxed masses."""
    diagonal = jnp.diag(hessian)
    diagonal = jnp.where(diagonal > 0, diagonal, 1)
    root, eye = jnp.sqrt(diagonal), jnp.eye(len(hessian), dtype=hessian.dtype)
    scaled = hessian / root[:, None] / root[None, :]
    scaled += 10 * jnp.finfo(hessian.dtype).eps * eye
    null = root / jnp.sqrt(diagonal.sum())  # (1, ..., 1), scaled
    lower = jnp.linalg.cholesky(scaled + null[:, None] * null[None, :])
    return root[:, None] * jnp.where(jnp.isfinite(lower).all(), lower, eye)
