"""Quasi-Newton steps that end `balance`, each as cheap as a `sinkhorn` iteration."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from upsilon_jax.kernels.samples import (
    MAX_LOG_SCALING,
    Samples,
    divide,
    dot,
    kernel,
    weights,
)

_MAX_STEPS = 19
_RADIUS = 8.0  # of a step


class _Polish(NamedTuple):
    steps: jax.Array  # [] int32
    inverse: jax.Array  # [K, K] of the Hessian in z, approximately
    z: jax.Array  # [K]
    slope: jax.Array  # [K] gradient in z
    u: jax.Array  # [K] at z, a change of the potentials
    error: jax.Array  # []
    best_u: jax.Array  # [K]
    best_error: jax.Array  # []


def polish(
    samples: Samples,
    target: jax.Array,
    g: jax.Array,
    pairs: jax.Array,
    tolerance: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Quasi-Newton (BFGS) on the column potentials, from g close to the solution.

    With the kernel matrix A at g a gradient at g + u takes two products, as an
    iteration of `sinkhorn` does:  q = v · A a,  a = 1/m / Aᵀ v,  v = exp(u). It is in
    z = Lᵀ u, where the Hessian about the solution, L Lᵀ, is about the identity.

    Args:
      samples: M rows.
      target: [K] masses of the clusters.
      g: [K] potentials to start from.
      pairs: [K, K] 1/m Σ_i p_i p_iᵀ, of some samples.
      tolerance: of the mass error, where it stops. It also does when the error does not
        fall, or g has moved too far.

    Returns:
      The best potentials found, their mass error, and about the maxima [M] over
      clusters of their exponents.
    """
    matrix, shift = kernel(samples, g)
    weight, lower = weights(samples), cholesky(pairs)

    def evaluate(z):
        u = solve_triangular(lower, z, trans=1, lower=True)
        v = jnp.exp(u)
        a = divide(weight, dot(v, matrix))
        # A product with a vector adds its m terms one by one, which shows in float32
        # for a million; one with a matrix, here of two equal rows, in blocks.
        pair = jnp.einsum("km,jm->kj", matrix, jnp.stack([a, a]), precision="highest")
        gradient = v * pair[:, 0] - target
        slope = solve_triangular(lower, gradient, lower=True)
        return slope, u, mass_error(gradient, target)

    def advance(polish):
        step = -dot(polish.inverse, polish.slope)
        length = jnp.abs(solve_triangular(lower, step, trans=1, lower=True)).max()
        step *= _RADIUS / jnp.maximum(length, _RADIUS)
        z = polish.z + step
        slope, u, error = evaluate(z)
        better = error < polish.best_error
        return _Polish(
            steps=polish.steps + 1,
            inverse=_bfgs(polish.inverse, step, slope - polish.slope),
            z=z,
            slope=slope,
            u=u,
            error=error,
            best_u=jnp.where(better, u, polish.best_u),
            best_error=jnp.where(better, error, polish.best_error),
        )

    def promising(polish):
        in_range = jnp.abs(polish.u).max() <= MAX_LOG_SCALING
        falling = polish.error <= 2 * polish.best_error
        more = polish.steps < _MAX_STEPS
        return (polish.best_error > tolerance) & in_range & falling & more

    zeros, eye = jnp.zeros_like(target), jnp.eye(target.size, dtype=target.dtype)
    slope, u, error = evaluate(zeros)
    start = _Polish(0, eye, zeros, slope, u, error, u, error)
    end = jax.lax.while_loop(promising, advance, start)
    return g + end.best_u, end.best_error, shift + end.best_u.max()


def _bfgs(inverse, step, change):
    """The inverse Hessian, corrected to map the change of the gradient to the step."""
    moved, scale = dot(inverse, change), step @ change
    correction = (1 + change @ moved / scale) * jnp.outer(step, step)
    correction -= jnp.outer(moved, step) + jnp.outer(step, moved)
    return jnp.where(scale > 0, inverse + correction / scale, inverse)


def cholesky(pairs: jax.Array) -> jax.Array:
    """[K, K] lower L, L Lᵀ = ∇²J, whose null vector (1, ..., 1) is made regular.

    Where rounding makes that fail, ∇²J is that of uniform p_i, I/K: with it the step is
    that of `sinkhorn`.
    """
    num_clusters = len(pairs)
    eye = jnp.eye(num_clusters, dtype=pairs.dtype)
    ridge = 10 * jnp.finfo(pairs.dtype).eps / num_clusters
    hessian = jnp.diag(pairs.sum(axis=1) + ridge) - pairs + 1 / num_clusters**2
    lower = jnp.linalg.cholesky(hessian)
    return jnp.where(jnp.isfinite(lower).all(), lower, eye / num_clusters**0.5)


def mass_error(gradient: jax.Array, target: jax.Array) -> jax.Array:
    """Returns max_k |K · column sum - 1|, for the gradient: column sum - target."""
    return (jnp.abs(gradient) / jnp.where(target > 0, target, 1)).max()
