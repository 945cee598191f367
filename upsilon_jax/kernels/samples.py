"""The problem of `sinkhorn` and `balance`, and their passes over its samples."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Exponents of a kernel matrix may move by so much before it is computed anew: an entry
# that was below the smallest float32 (e^-87) is then still below e^-27 of its row.
MAX_LOG_SCALING = 30.0

dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


class Samples(NamedTuple):
    """Rows of log P / ε, which is never stored.

    `where` is None, and not all true, if all rows take part: XLA:CPU runs a pass over
    [M, K] twice as fast without a mask.
    """

    log_probs: jax.Array  # [M, K]
    top: jax.Array  # [M] its maximum over clusters, 0 for rows that do not take part
    where: jax.Array | None  # [M] bool, the rows that take part
    sharpness: jax.Array  # [] 1/ε


def make_samples(
    log_probs: jax.Array, where: jax.Array | None, epsilon: jax.Array
) -> Samples:
    """Samples of [M, K] log P; rows outside `where` may hold anything."""
    top = mask(_maximum(log_probs), where, 0)
    return Samples(log_probs, top, where, 1 / jnp.asarray(epsilon, log_probs.dtype))


def mask(x: jax.Array, where: jax.Array | None, fill: float) -> jax.Array:
    """Puts `fill` in the place of rows [M] or [M, K] that do not take part."""
    if where is None:
        return x
    return jnp.where(where.reshape(-1, *(1,) * (x.ndim - 1)), x, fill)


def weights(samples: Samples) -> jax.Array:
    """[M] 1/m for the m rows that take part, zero for the others."""
    one = jnp.ones_like(samples.top)
    if samples.where is None:
        return one / max(one.size, 1)
    return samples.where / jnp.maximum(samples.where.sum(), 1).astype(one.dtype)


def column_maxima(samples: Samples) -> jax.Array:
    """[K] of log P; -inf for a cluster that no sample can reach."""
    rows = mask(samples.log_probs, samples.where, -jnp.inf)
    return rows.max(axis=0, initial=-jnp.inf)


def softmax(
    samples: Samples,
    g: jax.Array,
    anneal: jax.Array | float = 1,
    shift: jax.Array | None = None,
) -> jax.Array:
    """Row update: [M, K] softmax over clusters of anneal · log P / ε + g.

    Args:
      samples: M rows.
      g: [K] potentials.
      anneal: factor of 1/ε.
      shift: [M] about the maxima of the exponents, if they are known.

    Returns:
      [M, K], zero outside `where` and in rows that are -inf throughout.
    """
    exponent = _exponent(samples, g, anneal)
    shift = _maximum(exponent) if shift is None else shift
    mass = jnp.exp(exponent - shift[:, None])
    mass *= divide(1, mass.sum(axis=1))[:, None]
    return mask(mass, samples.where, 0)


def kernel(samples: Samples, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[K, M] exp(log P / ε + g), each sample scaled by e^-shift to a maximum of 1.

    Products along the contiguous, long axis run at memory speed, hence the transpose.
    The loops over clusters change it in place; they and `softmax`, which ends both
    solvers, can use the memory of the result.

    Returns:
      The matrix, zero outside `where`, and the shift [M].
    """
    log_probs, g = jax.lax.optimization_barrier((samples.log_probs, g))
    matrix = log_probs.T
    exponent = lambda k, row: (row - samples.top) * samples.sharpness + g[k]
    lowest = jnp.full_like(samples.top, jnp.finfo(g.dtype).min)  # if all are -inf
    larger = lambda k, shift: jnp.maximum(shift, exponent(k, matrix[k]))
    shift = mask(jax.lax.fori_loop(0, g.size, larger, lowest), samples.where, 0)
    mass = lambda k, row: mask(jnp.exp(exponent(k, row) - shift), samples.where, 0)
    replace = lambda k, matrix: matrix.at[k].set(mass(k, matrix[k]))
    return jax.lax.fori_loop(0, g.size, replace, matrix), shift


def _exponent(samples, g, anneal=1):
    """[M, K] log P / ε, relative to the maximum over clusters, + g.

    Scaling differences, not values, by 1/ε keeps any finite input below overflow. The
    barrier keeps XLA from storing it for all passes.
    """
    log_probs, g = jax.lax.optimization_barrier((samples.log_probs, g))
    below = log_probs - samples.top[:, None]
    return below * (samples.sharpness * anneal) + g[None, :]


def _maximum(exponent):
    """[M] of [M, K], to subtract before exp; finite if all entries are -inf."""
    return jnp.maximum(exponent.max(axis=1), jnp.finfo(exponent.dtype).min)


def divide(mass: jax.Array | float, total: jax.Array, empty: float = 0) -> jax.Array:
    """Returns mass / total, `empty` where there is nothing to scale but -inf."""
    return jnp.where(total == 0, empty, mass / total)
