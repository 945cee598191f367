"""Balanced assignment of samples to clusters by Sinkhorn-Knopp scaling (SEC)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from upsilon_jax.kernels.arguments import (
    ArrayLike,
    Scalar,
    check_num_iters,
    check_problem,
)
from upsilon_jax.kernels.meshes import on_any_mesh
from upsilon_jax.kernels.relaxed import (
    Terms,
    check_terms,
    drawn,
    make_columns,
    with_rest,
    without_rest,
)
from upsilon_jax.kernels.samples import (
    column_maxima,
    exponents,
    make_samples,
    mask,
    masses,
    softmax,
)


def sinkhorn(
    log_probs: ArrayLike,
    *,
    epsilon: Scalar = 0.05,
    num_iters: int = 32,
    where: ArrayLike | None = None,
    relaxation: Scalar | None = None,
    mass: Scalar = 1.0,
) -> jax.Array:
    """Entropic optimal transport of m samples onto K equally large clusters (Eq. 7).

        Q = argmin <Q, -log P> - ε H(Q)   over Q ≥ 0, Q 1 = 1/m, Qᵀ 1 = 1/K
          = exp(log P / ε + f 1ᵀ + 1 gᵀ)

    One iteration is a column (cluster) update of g followed by a row (sample) update
    of f, from f = 0. So the rows are exact after any number of iterations, the columns
    only at convergence: see `balance` for that.

    Beyond the paper, clusters need not be equally large nor all of the rows' mass be
    assigned: `relaxation` and `mass` (`kernels/relaxed.py`).

    Args:
      log_probs: [M, K] log P(cluster | sample), used as given. Entries of -inf get no
        mass.
      epsilon: entropic temperature ε > 0, so that neither ε nor 1/ε underflows.
      num_iters: iterations, from 1 to 2**31 - 1.
      where: [M] bool, samples that take part, m of them; all if None. The others get
        no mass and change nothing, whatever they hold.
      relaxation: λ > 0 draws the cluster sizes together by λ·KL; a large one is like
        None, which forces them to be equal, and a small one leaves softmax(log P / ε).
      mass: ρ in (0, 1], the share of all mass that is assigned, the most decided rows
        first: those that are likely to be in some cluster, by log P as given.

    Returns:
      [M, K] Q in float32, or float64 for such input. Finite for finite input; a NaN in
      a row that takes part gives NaN. Derivatives are those of the iterations, also
      with respect to ε, λ and ρ < 1. Below ρ = 1, rows sum to at most 1/m.

    Example:
      All four samples prefer the first cluster; the two that do so least go to the
      second. Each row has its quarter, the columns are still on their way to one half.

      >>> import numpy as np
      >>> log_probs = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
      >>> q = np.array(sinkhorn(log_probs))
      >>> print(np.round(q, 2))
      [[0.25 0.  ]
       [0.25 0.  ]
       [0.01 0.24]
       [0.   0.25]]
      >>> print(np.round(q.sum(axis=0), 2))
      [0.51 0.49]
    """
    log_probs, where, epsilon = check_problem(log_probs, epsilon, where)
    terms = check_terms(epsilon, relaxation, mass)
    log_probs, _ = with_rest(log_probs, where, epsilon, terms)
    plan, _ = solve(log_probs, where, epsilon, terms, check_num_iters(num_iters))
    return without_rest(plan, terms)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def solve(
    log_probs: jax.Array,
    where: jax.Array | None,
    epsilon: Scalar,
    terms: Terms,
    num_iters: int,
) -> tuple[jax.Array, jax.Array]:
    """[M, T] Q and the [T] potentials g that give it, for arguments in their ranges."""
    return _iterate(log_probs, where, epsilon, terms, num_iters)


@jax.jit
@on_any_mesh(rows=(True, False))
def _iterate(log_probs, where, epsilon, terms, num_iters):
    """Iterations on g alone: f of a row update is within the pass that uses it."""
    samples = make_samples(log_probs, where, epsilon)
    rows = exponents(samples)
    columns = None if terms.softness is None else make_columns(samples, terms)

    def iterate(_, g):
        mass = masses(samples, rows, g)
        if columns is None:
            return g - jnp.log(jnp.where(mass == 0, 1, mass * g.size))
        return jnp.where(mass == 0, g, drawn(columns, g - jnp.log(mass)))

    first = _first_column_update(samples)
    if columns is not None:
        first = _first_drawn(samples, terms, columns, first)
    g = jax.lax.fori_loop(1, num_iters, iterate, first)
    return softmax(samples, g, weight=samples.weight), g


def _first_drawn(samples, terms, columns, g):
    """The first column update; beside the rest, all of g must not shift together."""
    if terms.mass is not None:
        g -= column_maxima(samples).max() * samples.sharpness
    limit = jnp.finfo(g.dtype).max / 4
    return jnp.clip(drawn(columns, jnp.clip(g, -limit, limit)), -limit, limit)


def _first_column_update(samples):
    """[K] -logsumexp_i log P_i / ε up to a constant; 0 where no sample has any mass."""
    best = column_maxima(samples)
    top = jnp.where(jnp.isneginf(best), 0, best)
    below = mask(samples, samples.log_probs - top[None, :]) * samples.sharpness
    log_sum = jnp.log(jnp.exp(below).sum(axis=0))
    g = (best.max() - best) * samples.sharpness - log_sum
    return jnp.where(jnp.isneginf(best) | jnp.isposinf(g), 0, g)


@partial(solve.defjvp, symbolic_zeros=True)
def _solve_jvp(num_iters, primals, tangents):
    """Differentiates the same iteration in the log domain, a loop of fixed length."""
    log_probs, where, *numbers = primals
    along, _, *rates = tangents
    if isinstance(along, SymbolicZero):
        along = jnp.zeros_like(log_probs)
    numbers, tree = jax.tree.flatten(numbers)  # ε, λ and ρ; most often none moves
    rates = dict(enumerate(jax.tree.leaves(rates)))
    rates = {i: r for i, r in rates.items() if not isinstance(r, SymbolicZero)}

    def run(x, *moving):
        moved = dict(enumerate(numbers)) | dict(zip(rates, moving, strict=True))
        epsilon, terms = jax.tree.unflatten(tree, moved.values())
        return _log_domain(x, where, epsilon, terms, num_iters=num_iters)

    moving = [numbers[i] for i in rates]
    return jax.jvp(run, (log_probs, *moving), (along, *rates.values()))


@partial(jax.jit, static_argnames="num_iters")
@on_any_mesh(rows=(True, False))
def _log_domain(log_probs, where, epsilon, terms, *, num_iters):
    where = jnp.ones_like(log_probs[:, 0], bool) if where is None else where
    taking_part = where | ~where.any()  # no empty sums: their derivatives are NaN
    sharpness = 1 / jnp.asarray(epsilon, log_probs.dtype)
    exponent = jnp.where(taking_part[:, None], log_probs, 0) * sharpness
    log_mass = -jnp.log(taking_part.sum().astype(exponent.dtype))
    if terms.softness is not None:
        samples = make_samples(log_probs, taking_part, epsilon)
        columns = make_columns(jax.lax.stop_gradient(samples), terms)
    if terms.mass is not None:
        # -inf at ρ = 1, where its g is -inf, too.
        rest = exponent[:, -1]
        exponent = exponent.at[:, -1].set(jnp.where(jnp.isneginf(rest), 0, rest))

    @jax.checkpoint  # keeps f of every iteration, not [M, K] arrays
    def iterate(f, _):
        g = -jax.nn.logsumexp(exponent + f[:, None], 0, where=taking_part[:, None])
        if terms.softness is not None:
            g = drawn(columns, g)
        return log_mass - jax.nn.logsumexp(exponent + g[None, :], 1), g

    f, g = jax.lax.scan(iterate, jnp.zeros_like(exponent[:, 0]), length=num_iters)
    return jnp.exp(exponent + g[-1][None, :] + f[:, None]) * where[:, None], g[-1]
