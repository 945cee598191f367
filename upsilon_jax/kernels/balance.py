"""Balanced assignment of samples to clusters by Newton's method (SEC)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.sinkhorn import check_problem, plan, scale

_MAX_PASSES = 100
# Annealing: 1/ε starts where log P / ε spans 8 and grows by 8 whenever all clusters are
# within 1 %; from pass 60 on in any case, so that the last passes are at the true ε.
_FIRST_SPREAD = 8.0
_GROWTH = 8.0
_STAGE_TOLERANCE = 0.01
_HURRY_FROM_PASS = 60
# A saturated softmax makes the Hessian singular and Newton's steps too long. They are
# cut to a radius, which grows while such steps do not overshoot.
_RADIUS = 8.0
_RADIUS_GROWTH = 4.0
_BACKTRACK = 0.3


def balance(
    log_probs: jax.Array,
    *,
    epsilon: float = 0.05,
    tolerance: float = 1e-5,
    where: jax.Array | None = None,
) -> jax.Array:
    """The assignment of `sinkhorn` at convergence, in few passes over the samples.

    With the rows eliminated, the potentials g of the K columns minimise a convex
    function whose derivatives are sums over samples (p_i = softmax(log P_i / ε + g)):

        J(g) = 1/m Σ_i logsumexp_k(log P_ik / ε + g_k) - 1/K Σ_k g_k
        ∇J = q - 1/K,   ∇²J = diag(q) - 1/m Σ_i p_i p_iᵀ,   q = 1/m Σ_i p_i

    Newton's method on it, with 1/ε annealed up to its value and a line search, takes
    some 10 passes where `sinkhorn` takes hundreds.

    Args:
      log_probs: [M, K] log P(cluster | sample). Entries of -inf get no mass.
      epsilon: entropic temperature ε > 0.
      tolerance: stops when max_k |K · column sum - 1| is at most this, or after 100
        passes with the best potentials found.
      where: [M] bool, samples that take part, m of them; all if None.

    Returns:
      [M, K] Q as `sinkhorn`: rows sum to 1/m up to rounding, columns to 1/K up to
      `tolerance`. A NaN in a row that takes part gives NaN.
    """
    log_probs, where = check_problem(log_probs, epsilon, where)
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}")
    return _balance(log_probs, where, epsilon, tolerance)


class _State(NamedTuple):
    passes: jax.Array  # [] int32
    inverse: jax.Array  # [] annealed 1/ε over its final value, in (0, 1]
    g: jax.Array  # [K] potentials at `inverse`
    step: jax.Array  # [K], to be tried from g
    slope: jax.Array  # [] of J at g along `step`, negative
    radius: jax.Array  # [] of the next step
    best_g: jax.Array  # [K] at the final ε
    best_error: jax.Array  # []


@jax.jit
def _balance(log_probs, where, epsilon, tolerance):
    exponent, _ = scale(log_probs, epsilon, where)
    # Without samples all rows, which are equal, are samples: balanced at once.
    sample = where | ~where.any()
    reachable = (~jnp.isneginf(exponent) & sample[:, None]).any(axis=0)
    target = reachable / jnp.maximum(reachable.sum(), 1).astype(exponent.dtype)

    def advance(state: _State) -> _State:
        trial = state.g + state.step
        pairs = _pairs(state.inverse * exponent + trial[None, :], sample)
        slope = (pairs.sum(axis=1) - target) @ state.step
        # J is convex: a slope that has risen to half of -slope has overshot.
        choose = partial(jnp.where, slope > -state.slope / 2)
        return jax.tree.map(
            choose, _shorten(state), _accept(state, trial, pairs, target)
        )

    spread = -jnp.min(exponent, where=~jnp.isneginf(exponent), initial=0)
    inverse = _FIRST_SPREAD / jnp.maximum(spread, _FIRST_SPREAD)
    zero, zeros = jnp.zeros_like(inverse), jnp.zeros_like(target)
    start = _State(
        0, inverse, zeros, zeros, zero, zero + _RADIUS, zeros, zero + jnp.inf
    )
    searching = lambda s: (s.passes < _MAX_PASSES) & (s.best_error > tolerance)
    state = jax.lax.while_loop(searching, advance, start)
    g = state.best_g + 0 * state.best_error  # NaN there is NaN everywhere
    return plan(log_probs, g, epsilon, where)


def _shorten(state):
    return state._replace(
        passes=state.passes + 1,
        step=_BACKTRACK * state.step,
        slope=_BACKTRACK * state.slope,
        radius=jnp.full_like(state.radius, _RADIUS),
    )


def _accept(state, trial, pairs, target):
    """Goes to `trial`; there either anneals or chooses the next Newton step."""
    gradient = pairs.sum(axis=1) - target
    error = (jnp.abs(gradient) / jnp.where(target > 0, target, 1)).max()
    better = (state.inverse == 1) & ~(error >= state.best_error)

    next_stage = (error <= _STAGE_TOLERANCE) | (state.passes >= _HURRY_FROM_PASS)
    growth = jnp.where(next_stage, jnp.minimum(_GROWTH, 1 / state.inverse), 1)
    radius = jnp.where(growth > 1, _RADIUS, state.radius)
    step = jnp.where(growth > 1, 0, _newton_step(gradient, pairs))
    length = jnp.abs(step).max()
    step *= radius / jnp.maximum(length, radius)
    return _State(
        passes=state.passes + 1,
        inverse=jnp.minimum(growth * state.inverse, 1),
        g=growth * trial,
        step=step,
        slope=gradient @ step,
        radius=jnp.where(length > radius, _RADIUS_GROWTH * radius, radius),
        best_g=jnp.where(better, trial, state.best_g),
        best_error=jnp.where(better, error, state.best_error),
    )


def _pairs(exponent, sample):
    """[K, K] 1/m Σ_i p_i p_iᵀ; as p_i sums to 1, its rows sum to the shares q."""
    p = jax.nn.softmax(exponent, axis=1) * sample[:, None]
    product = jnp.matmul(p.T, p, precision=jax.lax.Precision.HIGHEST)
    return product / jnp.maximum(sample.sum(), 1).astype(p.dtype)


def _newton_step(gradient, pairs):
    """Solves ∇²J step = -∇J, but for the direction (1, ..., 1) that leaves J as it is.

    Where rounding makes that fail, the step is that of `sinkhorn`, log(1/K / q).
    """
    num_clusters, share = gradient.size, pairs.sum(axis=1)
    eps = jnp.finfo(share.dtype).eps
    hessian = jnp.diag(share) - pairs + 1 / num_clusters**2
    hessian += jnp.eye(num_clusters) * (10 * eps / num_clusters)
    step = jnp.linalg.solve(hessian, -gradient)
    scaling = -jnp.log(num_clusters * jnp.maximum(share, jnp.finfo(share.dtype).tiny))
    step = jnp.where(jnp.isfinite(step).all(), step, scaling)
    return step - step.mean()
