"""The problem of `sinkhorn` and `balance`, and their passes over its samples."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.arguments import Scalar
from upsilon_jax.kernels.rows import by_rows

dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


class Samples(NamedTuple):
    """Rows of log P / ε, which is never stored."""

    log_probs: jax.Array  # [M, K]
    where: jax.Array | None  # [M] bool, the rows that take part; all if None
    sharpness: jax.Array  # [] 1/ε

    @property
    def weight(self) -> jax.Array:
        """[] 1/m, for the m rows that take part."""
        rows = self.log_probs.shape[0] if self.where is None else self.where.sum()
        return 1 / jnp.maximum(rows, 1).astype(self.log_probs.dtype)


def make_samples(
    log_probs: jax.Array, where: jax.Array | None, epsilon: Scalar
) -> Samples:
    """Samples of [M, K] log P; rows outside `where` may hold anything.

    A traced ε is not checked: it is drawn to where neither ε nor 1/ε underflows.
    """
    tiny = jnp.finfo(log_probs.dtype).tiny
    sharpness = 1 / jnp.asarray(epsilon, log_probs.dtype)
    return Samples(log_probs, where, jnp.clip(sharpness, tiny, 1 / tiny))


def column_maxima(samples: Samples) -> jax.Array:
    """[K] of log P; -inf for a cluster that no sample can reach."""
    return mask(samples, samples.log_probs).max(axis=0, initial=-jnp.inf)


def mask(samples: Samples, x: jax.Array) -> jax.Array:
    """[M, K] x, -inf in rows that do not take part."""
    where = samples.where
    return x if where is None else jnp.where(where[:, None], x, -jnp.inf)


def softmax(
    samples: Samples,
    g: jax.Array,
    anneal: jax.Array | float = 1,
    weight: jax.Array | float = 1,
) -> jax.Array:
    """Row update: [M, K] weight · softmax over clusters of anneal · log P / ε + g.

    It is zero outside `where` and in rows that are -inf throughout.
    """
    log_probs, where, sharpness = _rows(samples)
    weight = jnp.asarray(weight, g.dtype)
    return _softmax(log_probs, where, sharpness * anneal, g, weight)


def exponents(samples: Samples) -> jax.Array:
    """[M, K] what `masses` reads; C++ code stores the entries in another order."""
    return _exponents(*_rows(samples))


def masses(samples: Samples, exponents: jax.Array, g: jax.Array) -> jax.Array:
    """[K] cluster masses 1/m Σ_i softmax_k(log P_i / ε + g), in one pass over [M, K].

    Args:
      samples: M rows.
      exponents: those of the samples.
      g: [K] potentials.
    """
    _, where, sharpness = _rows(samples)
    return samples.weight * _masses(exponents, where, sharpness, g)


def _rows(samples):
    """The samples, with a mask even if all rows take part."""
    if samples.where is not None:
        return samples
    return samples._replace(where=jnp.ones(samples.log_probs.shape[0], bool))


def _plain_exponents(log_probs, where, sharpness):
    return log_probs  # storing the exponents would take more time than it saves


def _plain_masses(exponents, where, sharpness, g):
    one = jnp.ones((), g.dtype)
    return _plain_softmax(exponents, where, sharpness, g, one).sum(axis=0)


def _plain_softmax(log_probs, where, sharpness, g, weight):
    """Scaling differences, not values, by 1/ε keeps any finite input below overflow."""
    # The barrier keeps XLA from storing exponents for all passes of a loop.
    log_probs, g = jax.lax.optimization_barrier((log_probs, g))
    exponent = (log_probs - _maximum(log_probs)) * sharpness + g[None, :]
    exponent = jnp.where(where[:, None], exponent, -jnp.inf)
    mass = jnp.exp(exponent - _maximum(exponent))
    total = mass.sum(axis=1, keepdims=True)
    return mass * jnp.where(total == 0, 0, weight / total)


def _maximum(x):
    """[M, 1] of [M, K], to subtract before exp; finite if all entries are -inf."""
    return jnp.maximum(x.max(axis=1, keepdims=True), jnp.finfo(x.dtype).min)


_exponents = by_rows("rows_exponents", _plain_exponents, "m k, m, -> m k")
_masses = by_rows("rows_masses", _plain_masses, "m k, m, , k -> k", sums=True)
_softmax = by_rows("rows_softmax", _plain_softmax, "m k, m, , k, -> m k")
