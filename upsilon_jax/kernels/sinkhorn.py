"""Balanced assignment of samples to clusters by Sinkhorn-Knopp scaling (SEC)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.samples import (
    MAX_LOG_SCALING,
    column_maxima,
    divide,
    dot,
    kernel,
    make_samples,
    mask,
    softmax,
    weights,
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
    return _scale_kernel(log_probs, where, epsilon, num_iters)


@jax.jit
def _scale_kernel(log_probs, where, epsilon, num_iters):
    """Scaling of a kernel matrix, which takes exp once and not in every iteration."""
    samples = make_samples(log_probs, where, epsilon)
    weight = weights(samples)
    f, g = _start(samples)

    def fold(state):  # the scaling so far goes into a new kernel matrix
        step, g, _, _ = state
        matrix, shift = kernel(samples, g)
        # In the first iteration f = 0, in later ones it is that of the row update.
        a = divide(weight, dot(jnp.ones_like(g), matrix))
        a = jnp.where(step == 0, mask(jnp.exp(f + shift), where, 0), a)

        def iterate(state):
            step, a, b, _ = state
            b = divide(1 / b.size, dot(matrix, a), empty=1)
            a = divide(weight, dot(b, matrix))
            return step + 1, a, b, jnp.abs(jnp.log(b)).max()

        in_range = lambda s: (s[0] < num_iters) & ~(s[3] > MAX_LOG_SCALING)
        start = step, a, jnp.ones_like(g), jnp.zeros((), g.dtype)
        step, _, b, _ = jax.lax.while_loop(in_range, iterate, start)
        return step, g + jnp.log(b), shift, jnp.log(b).max()

    start = 0, g, f, jnp.zeros((), g.dtype)
    unfinished = lambda s: s[0] < num_iters
    _, g, shift, scaling = jax.lax.while_loop(unfinished, fold, start)
    return softmax(samples, g, shift=shift + scaling) * weight[:, None]


def _start(samples):
    """[M] f = 0, up to a constant, and [K] g that gives every column a maximum of 1."""
    top, where = samples.top, samples.where
    largest = mask(top, where, -jnp.inf).max(initial=-jnp.inf)
    best = (column_maxima(samples) - largest) * samples.sharpness
    return (top - largest) * samples.sharpness, -jnp.where(jnp.isneginf(best), 0, best)


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
