"""Balanced assignment of samples to clusters by Sinkhorn-Knopp scaling (SEC)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

# Column scalings are folded into the kernel matrix before they leave [e^-30, e^30]: an
# iteration multiplies them by a factor within [1/K, m], which keeps the largest term of
# every sum above the smallest float32 (1e-38) up to m·K = 1e9.
_MAX_LOG_SCALING = 30.0


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
) -> tuple[jax.Array, jax.Array]:
    """Checks the arguments that `sinkhorn` and `balance` share; fills in `where`."""
    log_probs = jnp.asarray(log_probs)
    log_probs = log_probs.astype(jnp.promote_types(log_probs.dtype, jnp.float32))
    if log_probs.ndim != 2 or log_probs.shape[1] < 1:
        raise ValueError(f"log_probs must be [M, K ≥ 1], got {log_probs.shape}")
    if not 0 < epsilon < float("inf"):
        raise ValueError(f"epsilon must be positive and finite, got {epsilon}")
    return log_probs, check_where(where, log_probs.shape[0])


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
    weight = uniform(where, log_probs.dtype)
    dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)

    def fold(state):  # the scaling so far goes into a new kernel matrix
        step, g = state
        kernel = _kernel(log_probs, g, epsilon, where)

        def iterate(state):
            step, _, b = state
            a = _divide(weight, dot(b, kernel), 0)
            b = _divide(1 / b.size, dot(kernel, a), 1)
            return step + 1, jnp.abs(jnp.log(b)).max(), b

        in_range = lambda s: (s[0] < num_iters) & ~(s[1] > _MAX_LOG_SCALING)
        start = step, jnp.zeros((), g.dtype), jnp.ones_like(g)
        step, _, b = jax.lax.while_loop(in_range, iterate, start)
        return step, g + jnp.log(b)

    start = 1, _first_column_update(log_probs, epsilon, where)
    _, g = jax.lax.while_loop(lambda s: s[0] < num_iters, fold, start)
    return plan(log_probs, g, epsilon, where)


def plan(
    log_probs: jax.Array, g: jax.Array, epsilon: float, where: jax.Array
) -> jax.Array:
    """Row update and Q: [M, K] softmax(log P / ε + g) / m, zero outside `where`."""
    exponent = scale(log_probs, epsilon, where)[0] + g[None, :]
    top = exponent.max(axis=1)
    mass = jnp.exp(exponent - _finite(top)[:, None])
    return mass * _divide(uniform(where, mass.dtype), mass.sum(axis=1), 0)[:, None]


def uniform(where: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """[M] weights of the samples: 1/m inside `where`, zero outside."""
    return where / jnp.maximum(where.sum(), 1).astype(dtype)


def scale(
    log_probs: jax.Array, epsilon: float, where: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Splits log P / ε into ([M, K] minus its maximum over clusters, that maximum [M]).

    Dividing differences, not values, by ε keeps any finite input below overflow. The
    maximum is relative to the largest of all samples.
    """
    top = jnp.where(where, _finite(log_probs.max(axis=1)), 0)
    below = jnp.where(where[:, None], log_probs - top[:, None], 0) / epsilon
    largest = jnp.max(top, where=where, initial=-jnp.inf)
    return below, jnp.where(where, (top - largest) / epsilon, -jnp.inf)


def _finite(top):
    """The maximum to subtract before exp; 0 if all entries are -inf."""
    return jnp.where(jnp.isneginf(top), 0, top)


def _divide(mass, total, empty):
    """Returns mass / total, `empty` where there is nothing to scale but -inf."""
    return jnp.where(total == 0, empty, mass / total)


def _first_column_update(log_probs, epsilon, where):
    """In the log domain: here g may move by thousands, in later steps by few."""
    below, top = scale(log_probs, epsilon, where)
    mass = jax.nn.logsumexp(below + top[:, None], axis=0)
    return -_finite(mass)


def _kernel(log_probs, g, epsilon, where):
    """[K, M] exp(log P / ε + g), every sample scaled to a largest entry of 1.

    Products along the contiguous, long axis run at memory speed, hence the transpose.
    The barrier keeps XLA from storing log P / ε [M, K] for all calls.
    """
    log_probs, g = jax.lax.optimization_barrier((log_probs, g))
    exponent = scale(log_probs, epsilon, where)[0] + g[None, :]
    return jnp.exp(exponent - _finite(exponent.max(axis=1))[:, None]).T


@_sinkhorn.defjvp
def _sinkhorn_jvp(epsilon, num_iters, primals, tangents):
    """Differentiates the same iteration in the log domain, a loop of fixed length."""
    log_probs, where = primals
    plan = lambda x: _log_domain_sinkhorn(x, where, epsilon, num_iters)
    return jax.jvp(plan, (log_probs,), tangents[:1])


@partial(jax.jit, static_argnums=(2, 3))
def _log_domain_sinkhorn(log_probs, where, epsilon, num_iters):
    taking_part = where | ~where.any()  # no empty sums: their derivatives are NaN
    exponent = jnp.where(taking_part[:, None], log_probs, 0) / epsilon
    log_mass = -jnp.log(taking_part.sum().astype(exponent.dtype))

    @jax.checkpoint  # keeps f of every iteration, not [M, K] arrays
    def iterate(f, _):
        g = -jax.nn.logsumexp(exponent + f[:, None], 0, where=taking_part[:, None])
        return log_mass - jax.nn.logsumexp(exponent + g[None, :], 1), g

    f, g = jax.lax.scan(iterate, jnp.zeros_like(exponent[:, 0]), length=num_iters)
    return jnp.exp(exponent + g[-1][None, :] + f[:, None]) * where[:, None]
