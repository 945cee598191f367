"""Balanced assignment of samples to clusters by Sinkhorn-Knopp scaling (SEC)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.samples import (
    column_maxima,
    exponents,
    make_samples,
    mask,
    masses,
    softmax,
)


def sinkhorn(
    log_probs: jax.Array,
    *,
    epsilon: float = 0.05,
    num_iters: int = 32,
    where: jax.Array | None = None,
) -> jax.Array:
    """Entropic optimal transport of m samples onto K equally large clusters (Eq. 7).

        Q = argmin <Q, -log P> - ε H(Q)   over Q ≥ 0, Q 1 = 1/m, Qᵀ 1 = 1/K
          = exp(log P / ε + f 1ᵀ + 1 gᵀ)

    One iteration is a column (cluster) update of g followed by a row (sample) update
    of f, from f = 0. So the rows are exact after any number of iterations, the columns
    only at convergence: see `balance` for that.

    Args:
      log_probs: [M, K] log P(cluster | sample), used as given. Entries of -inf get no
        mass.
      epsilon: entropic temperature ε > 0.
      num_iters: iterations, at least 1.
      where: [M] bool, samples that take part, m of them; all if None. The others get
        no mass and change nothing, whatever they hold.

    Returns:
      [M, K] Q in float32, or float64 for such input. Finite for finite input; a NaN in
      a row that takes part gives NaN.

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
    log_probs, where = check_problem(log_probs, epsilon, where)
    if num_iters < 1:
        raise ValueError(f"num_iters must be at least 1, got {num_iters}")
    return _sinkhorn(log_probs, where, float(epsilon), int(num_iters))


def check_problem(
    log_probs: jax.Array, epsilon: float, where: jax.Array | None
) -> tuple[jax.Array, jax.Array | None]:
    """Checks the arguments that `sinkhorn` and `balance` share."""
    log_probs = jnp.asarray(log_probs)
    log_probs = log_probs.astype(jnp.promote_types(log_probs.dtype, jnp.float32))
    if log_probs.ndim != 2 or log_probs.shape[1] < 1:
        raise ValueError(f"log_probs must be [M, K ≥ 1], got {log_probs.shape}")
    if not 0 < epsilon < float("inf"):
        raise ValueError(f"epsilon must be positive and finite, got {epsilon}")
    if where is not None:
        where = check_where(where, log_probs.shape[0])
    return log_probs, where


def check_where(where: jax.Array | None, num_rows: int) -> jax.Array:
    """[M] bool; all rows if None."""
    if where is None:
        # XLA would take seconds to sum a constant [1e6] when it compiles.
        return jax.lax.optimization_barrier(jnp.ones(num_rows, bool))
    if jnp.shape(where) != (num_rows,):
        raise ValueError(f"where must be [M] = [{num_rows}], got {jnp.shape(where)}")
    return jnp.asarray(where, bool)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _sinkhorn(log_probs, where, epsilon, num_iters):
    return _iterate(log_probs, where, epsilon, num_iters)


@jax.jit
def _iterate(log_probs, where, epsilon, num_iters):
    """Iterations on g alone: f of a row update is within the pass that uses it."""
    samples = make_samples(log_probs, where, epsilon)
    rows = exponents(samples)

    def iterate(_, g):
        mass = masses(samples, rows, g)
        return g - jnp.log(jnp.where(mass == 0, 1, mass * g.size))

    g = jax.lax.fori_loop(1, num_iters, iterate, _first_column_update(samples))
    return softmax(samples, g, weight=samples.weight)


def _first_column_update(samples):
    """[K] -logsumexp_i log P_i / ε up to a constant; 0 where no sample has any mass."""
    best = column_maxima(samples)
    top = jnp.where(jnp.isneginf(best), 0, best)
    below = mask(samples, samples.log_probs - top[None, :]) * samples.sharpness
    log_sum = jnp.log(jnp.exp(below).sum(axis=0))
    g = (best.max() - best) * samples.sharpness - log_sum
    return jnp.where(jnp.isneginf(best) | jnp.isposinf(g), 0, g)


@_sinkhorn.defjvp
def _sinkhorn_jvp(epsilon, num_iters, primals, tangents):
    """Differentiates the same iteration in the log domain, a loop of fixed length."""
    log_probs, where = primals
    plan = lambda x: _log_domain_sinkhorn(x, where, epsilon, num_iters)
    return jax.jvp(plan, (log_probs,), tangents[:1])


@partial(jax.jit, static_argnums=(2, 3))
def _log_domain_sinkhorn(log_probs, where, epsilon, num_iters):
    where = jnp.ones_like(log_probs[:, 0], bool) if where is None else where
    taking_part = where | ~where.any()  # no empty sums: their derivatives are NaN
    exponent = jnp.where(taking_part[:, None], log_probs, 0) / epsilon
    log_mass = -jnp.log(taking_part.sum().astype(exponent.dtype))

    @jax.checkpoint  # keeps f of every iteration, not [M, K] arrays
    def iterate(f, _):
        g = -jax.nn.logsumexp(exponent + f[:, None], 0, where=taking_part[:, None])
        return log_mass - jax.nn.logsumexp(exponent + g[None, :], 1), g

    f, g = jax.lax.scan(iterate, jnp.zeros_like(exponent[:, 0]), length=num_iters)
    return jnp.exp(exponent + g[-1][None, :] + f[:, None]) * where[:, None]
