"""Balanced assignment of samples to clusters by Newton's method (SEC)."""

from __future__ import annotations

import sys
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.scipy.linalg import cho_solve

from upsilon_jax.kernels.arguments import (
    ArrayLike,
    Scalar,
    check_number,
    check_problem,
)
from upsilon_jax.kernels.implicit import plan_tangent
from upsilon_jax.kernels.meshes import on_any_mesh
from upsilon_jax.kernels.quasi_newton import cholesky, quasi_newton
from upsilon_jax.kernels.relaxed import (
    Terms,
    check_terms,
    curvature,
    demand,
    demand_error,
    make_all_columns,
    make_columns,
    safe_step,
    slope_limit,
    with_rest,
    without_rest,
)
from upsilon_jax.kernels.samples import (
    Samples,
    dot,
    make_samples,
    mask,
    softmax,
)

# Newton starts on a part of the rows: every 16th, or more of them where that leaves a
# cluster fewer than 8 rows. Where the part would be more than every 4th row, it is all.
_STRIDE = 16
_LEAST_STRIDE = 4
_ROWS_PER_CLUSTER = 8
_MAX_PASSES = 60  # of Newton; `quasi_newton` takes up to 20, before and after
# Annealing: 1/ε starts where log P / ε spans 8. It grows eightfold whenever the masses
# of all clusters are right to 1 %; for the part 10 % will do, since it differs from the
# whole by as much. From pass 40 on it grows in any case, to end at the true ε.
_FIRST_SPREAD = 8.0
_GROWTH = 8.0
_STAGE_TOLERANCE = 0.01
_PART_TOLERANCE = 0.1
_HURRY_FROM_PASS = 40
# A saturated softmax makes the Hessian singular and Newton's steps too long. They are
# cut to a radius; it grows as long as the cut steps do not overshoot.
_RADIUS = 8.0
_RADIUS_GROWTH = 4.0
_BACKTRACK = 0.3
# With a larger error Newton does not start at the final ε, but anneals again: there a
# saturated softmax would leave it without a direction.
_FAR = 0.05


def balance(
    log_probs: ArrayLike,
    *,
    epsilon: Scalar = 0.05,
    tolerance: Scalar = 1e-5,
    where: ArrayLike | None = None,
    relaxation: Scalar | None = None,
    mass: Scalar = 1.0,
) -> jax.Array:
    """The assignment of `sinkhorn` at convergence, in few passes over the samples.

    With the rows eliminated, the potentials g of the K columns minimise a convex
    function whose derivatives are sums over samples (p_i = softmax(log P_i / ε + g)):

        J(g) = 1/m Σ_i logsumexp_k(log P_ik / ε + g_k) - 1/K Σ_k g_k
        ∇J = q - 1/K,   ∇²J = diag(q) - 1/m Σ_i p_i p_iᵀ,   q = 1/m Σ_i p_i

    Newton's method, with 1/ε annealed up to its value and a line search, minimises it
    for every n-th sample. From there quasi-Newton steps on all samples, each as cheap
    as an iteration of `sinkhorn`, take some 3 to 15 passes where that takes hundreds.
    They fail where the part was not typical of the whole: then Newton's method goes on
    with all samples.

    Args:
      log_probs: [M, K] log P(cluster | sample). Entries of -inf get no mass.
      epsilon: entropic temperature ε > 0, so that neither ε nor 1/ε underflows.
      tolerance: stops when max_k |K · column sum - 1| is at most this, or after 100
        passes over all samples with the best potentials found.
      where: [M] bool, samples that take part, m of them; all if None.
      relaxation: λ of `sinkhorn`. ∇J is then q - d with the masses d_k that clusters
        are to have at g (`kernels/relaxed.py`), and max_k |q_k / d_k - 1| is what
        `tolerance` is for.
      mass: ρ of `sinkhorn`.

    Returns:
      [M, K] Q as `sinkhorn`: rows sum to 1/m up to rounding, columns to 1/K up to
      `tolerance`. Finite for finite input; a NaN in a row that takes part gives NaN.
      Derivatives are those of the balanced plan (`kernels/implicit.py`), whatever led
      to it: they are as exact as the balance is.

    Example:
      Without the second sample, each of the others has a third, and each cluster half.

      >>> import numpy as np
      >>> log_probs = np.log([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3], [0.6, 0.4]])
      >>> q = np.array(balance(log_probs, where=np.arange(4) != 1))
      >>> print(np.round(q, 2))
      [[0.33 0.  ]
       [0.   0.  ]
       [0.17 0.17]
       [0.   0.33]]
      >>> print(np.round(q.sum(axis=0), 2))
      [0.5 0.5]
    """
    log_probs, where, epsilon = check_problem(log_probs, epsilon, where)
    terms = check_terms(epsilon, relaxation, mass)
    log_probs, _ = with_rest(log_probs, where, epsilon, terms)
    plan, _ = solve(log_probs, where, epsilon, terms, check_tolerance(tolerance))
    return without_rest(plan, terms)


def check_tolerance(tolerance: Scalar) -> Scalar:
    """Positive, if it is known."""
    return check_number("tolerance", tolerance, sys.float_info.min, sys.float_info.max)


@jax.jit
def solve(
    log_probs: jax.Array,
    where: jax.Array | None,
    epsilon: Scalar,
    terms: Terms,
    tolerance: Scalar,
) -> tuple[jax.Array, jax.Array]:
    """[M, T] Q and the [T] potentials g that give it, for arguments in their ranges."""
    # The call is jitted, and not only its parts: outside of `jit`, a function with a
    # derivative of its own takes as long to call as two passes over 40,000 rows.
    return _minimise(log_probs, where, epsilon, terms, tolerance)


# K counts columns here: one of them is what rows keep back, if ρ < 1.
class _State(NamedTuple):
    passes: jax.Array | int  # [] int32
    anneal: jax.Array  # [] annealed 1/ε over its final value, in (0, 1]
    g: jax.Array  # [K] potentials at `anneal`
    step: jax.Array  # [K], to be tried from g
    slope: jax.Array  # [] of J at g along `step`, negative
    radius: jax.Array  # [] of the next step
    pairs: jax.Array  # [K, K] 1/m Σ_i p_i p_iᵀ of the last pass
    best_g: jax.Array  # [K] at the final ε
    best_error: jax.Array  # []


@jax.custom_jvp
@on_any_mesh(rows=(True, False))
def _minimise(log_probs, where, epsilon, terms, tolerance):
    samples = make_samples(log_probs, where, epsilon)
    part = _thin_out(samples)
    first = _start(part)
    of_part = make_columns(part, terms)
    columns = make_all_columns(samples, terms, of_part)
    state = _newton(part, of_part, first, _PART_TOLERANCE, _PART_TOLERANCE)

    def attempt(carry):
        rounds, _, state = carry
        g, error = quasi_newton(samples, columns, state.best_g, state.pairs, tolerance)
        state = state._replace(best_g=g, best_error=error)
        # Not there yet: the part was not typical. Once more, with all samples.
        again = (rounds == 0) & (state.best_error > tolerance)
        # The part may have had no sample at all, and so nothing to anneal.
        anneal = jax.lax.cond(
            again, lambda: _start(samples).anneal, lambda: first.anneal
        )
        start = first._replace(anneal=anneal)
        # With no pass left, Newton does nothing: a `cond` would compile it once more.
        start = _restart(start, state, jnp.where(again, 0, _MAX_PASSES))
        state = _newton(samples, columns, start, tolerance, _STAGE_TOLERANCE)
        return rounds + 1, again, state

    some = jnp.array(True) if where is None else where.any()
    start = 0, some, state
    *_, state = jax.lax.while_loop(lambda carry: carry[1], attempt, start)
    g = state.best_g + 0 * state.best_error  # a NaN in the error spreads to all of Q
    return softmax(samples, g, weight=samples.weight), g


@partial(_minimise.defjvp, symbolic_zeros=True)
def _minimise_jvp(primals, tangents):
    problem, (along, _, stretch, drift, _) = primals[:-1], tangents
    plan, g = _minimise(*primals)
    moves = jax.tree.map(
        lambda x: None if isinstance(x, SymbolicZero) else x, (along, stretch, drift)
    )
    return (plan, g), plan_tangent(plan, g, *problem, *moves)


def _thin_out(samples):
    """Every n-th sample; all of them if they are few."""
    num_rows, num_clusters = samples.log_probs.shape
    stride = min(_STRIDE, num_rows // (_ROWS_PER_CLUSTER * num_clusters))
    if stride < _LEAST_STRIDE:
        return samples
    log_probs, where = jax.tree.map(lambda x: x[::stride], samples[:2])
    return Samples(log_probs, where, samples.sharpness)


def _start(samples):
    """Before the first pass: 1/ε annealed, and p_i as if they were uniform."""
    log_probs = mask(samples, samples.log_probs)
    below = (log_probs - log_probs.max(axis=1, keepdims=True)) * samples.sharpness
    spread = -jnp.min(below, where=jnp.isfinite(below), initial=0)
    anneal = _FIRST_SPREAD / jnp.maximum(spread, _FIRST_SPREAD)
    zero, zeros = jnp.zeros_like(anneal), jnp.zeros(log_probs.shape[1], anneal.dtype)
    return _State(
        passes=0,
        anneal=anneal,
        g=zeros,
        step=zeros,
        slope=zero,
        radius=zero + _RADIUS,
        pairs=jnp.full((zeros.size, zeros.size), 1 / zeros.size**2, zeros.dtype),
        best_g=zeros,
        best_error=zero + jnp.inf,
    )


def _restart(first, state, passes):
    """Newton's state at the best potentials, or `first` if these are far off."""
    far = state.best_error > _FAR
    start = first._replace(
        passes=passes,
        anneal=jnp.where(far, first.anneal, 1),
        g=jnp.where(far, 0, state.best_g),
    )
    return start._replace(
        pairs=state.pairs, best_g=state.best_g, best_error=state.best_error
    )


def _newton(samples, columns, state, tolerance, stage_tolerance):
    """Passes of Newton's method until the best error is within `tolerance`."""

    def advance(state: _State) -> _State:
        trial = state.g + state.step
        p = softmax(samples, trial, state.anneal)
        # [K, K]; as p_i sums to 1, the rows sum to the shares q.
        state = state._replace(
            passes=state.passes + 1, pairs=dot(p.T, p) * samples.weight
        )
        masses, wanted = state.pairs.sum(axis=1), demand(columns, trial, state.anneal)
        slope = (masses - wanted) @ state.step
        # J is convex: a slope that has risen to half of -slope has overshot.
        overshot = slope > slope_limit(columns, state.slope, wanted, state.step)
        accepted = _accept(state, trial, masses, wanted, columns, stage_tolerance)
        return jax.tree.map(partial(jnp.where, overshot), _shorten(state), accepted)

    searching = lambda s: (s.passes < _MAX_PASSES) & (s.best_error > tolerance)
    return jax.lax.while_loop(searching, advance, state)


def _shorten(state):
    return state._replace(
        step=_BACKTRACK * state.step,
        slope=_BACKTRACK * state.slope,
        radius=jnp.full_like(state.radius, _RADIUS),
    )


def _accept(state, trial, masses, wanted, columns, stage_tolerance):
    """Goes to `trial`; there either anneals or chooses the next Newton step."""
    gradient = masses - wanted
    error = demand_error(columns, gradient, wanted)
    better = (state.anneal == 1) & ~(error >= state.best_error)

    next_stage = (error <= stage_tolerance) | (state.passes > _HURRY_FROM_PASS)
    growth = jnp.where(next_stage, jnp.minimum(_GROWTH, 1 / state.anneal), 1)
    radius = jnp.where(growth > 1, _RADIUS, state.radius)
    extra = curvature(columns, state.pairs, wanted, state.anneal)
    step = -cho_solve((cholesky(state.pairs, curvature=extra), True), gradient)
    safe = partial(safe_step, columns, masses, wanted)
    step = jnp.where(growth > 1, 0, safe(step, state.anneal))
    length = jnp.abs(step).max()
    step *= radius / jnp.maximum(length, radius)
    limit = jnp.finfo(trial.dtype).max / 4  # sums of potentials must not overflow
    return state._replace(
        anneal=jnp.minimum(growth * state.anneal, 1),
        g=jnp.clip(growth * trial, -limit, limit),
        step=step,
        slope=gradient @ step,
        radius=jnp.where(length > radius, _RADIUS_GROWTH * radius, radius),
        best_g=jnp.where(better, trial, state.best_g),
        best_error=jnp.where(better, error, state.best_error),
    )
