"""Batch normalisation and leaky ReLU as one operation, with its own backward pass.

    y = φ(γ (x - μ) / sqrt(σ² + ε) + β),      φ(z) = z if z ≥ 0 else slope · z

Left to automatic differentiation the pair keeps several arrays of the size of x for
the backward pass. Written out it needs x alone, and is two passes over memory: one for
the two sums over the batch, one for the result.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.meshes import on_any_mesh


@on_any_mesh(rows=(True, False, False))
def batch_norm_leaky_relu(
    x: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    *,
    epsilon: float,
    slope: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Normalises with the statistics of the batch itself, then applies leaky ReLU.

    Sums run over every axis but the last, in at least float32. Where the rows of x are
    sharded over devices inside a jit they run over all of them. Differentiable in
    reverse mode any number of times; forward mode (`jax.jvp`) is not available.

    Args:
      x: [..., C], any floating dtype.
      scale: [C], γ.
      bias: [C], β.
      epsilon: added to the variance.
      slope: of the leaky ReLU on negative numbers.

    Returns:
      y [..., C] in the dtype of x; the batch mean [C] and its biased variance [C].
    """
    if x.ndim < 2 or scale.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError(
            "x must be [..., C] with scale and bias [C], got "
            f"{x.shape}, {scale.shape}, {bias.shape}"
        )
    return _batch_norm(x, scale, bias, epsilon, slope)


def normalize_leaky_relu(
    x: jax.Array,
    mean: jax.Array,
    variance: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    *,
    epsilon: float,
    slope: float,
) -> jax.Array:
    """Normalises x [..., C] with given statistics [C], then applies leaky ReLU."""
    gain = scale * jax.lax.rsqrt(variance + epsilon)
    z = _centered(x, mean) * _row(gain, x) + _row(bias, x)
    return jnp.where(z >= 0, z, slope * z).astype(x.dtype)


def _row(vector, x):
    """[C] -> [1, ..., 1, C], to be broadcast against x."""
    return vector.reshape((1,) * (x.ndim - 1) + vector.shape)


def _centered(x, mean):
    """X - mean, in the wider of the two dtypes."""
    return x.astype(mean.dtype) - _row(mean, x)


def _statistics(x):
    """Mean and biased variance over all axes but the last, in one pass over x.

    The variance is E[d²] - E[d]² with d the distance to one sample of the batch: were
    d measured from zero, digits would be lost where the mean is large.
    """
    axes = tuple(range(x.ndim - 1))
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    shift = jax.lax.stop_gradient(wide[(0,) * (x.ndim - 1)])
    d = wide - _row(shift, x)
    mean_d = jnp.mean(d, axes)
    variance = jnp.maximum(jnp.mean(d * d, axes) - mean_d * mean_d, 0)
    return shift + mean_d, variance


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _batch_norm(x, scale, bias, epsilon, slope):
    mean, variance = _statistics(x)
    y = normalize_leaky_relu(
        x, mean, variance, scale, bias, epsilon=epsilon, slope=slope
    )
    return y, mean, variance


# Jitted, both passes are traced once for every shape and not for every layer.
@functools.partial(jax.jit, static_argnums=(3, 4))
def _batch_norm_fwd(x, scale, bias, epsilon, slope):
    y, mean, variance = _batch_norm(x, scale, bias, epsilon, slope)
    return (y, mean, variance), (x, scale, bias, mean, variance)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _batch_norm_bwd(epsilon, slope, residuals, cotangents):
    """With g = φ'(z) ȳ and x̂ the normalised x: x̄ = γ/σ (g - E[g] - x̂ E[g x̂]).

    Written as x̄ = gain · g + along · (x - μ) + level with coefficients [C], so that one
    pass over g and x remains once the two sums are known.
    """
    x, scale, bias, mean, variance = residuals
    y_bar, mean_bar, variance_bar = cotangents
    axes = tuple(range(x.ndim - 1))
    count = x.size // x.shape[-1]
    inverse = jax.lax.rsqrt(variance + epsilon)
    gain = scale * inverse
    d = _centered(x, mean)
    z = d * _row(gain, x) + _row(bias, x)
    g = y_bar.astype(z.dtype)
    g = jnp.where(z >= 0, g, slope * g)
    sum_g = jnp.sum(g, axes)
    sum_gd = jnp.sum(g * d, axes)
    along = (2 * variance_bar - gain * inverse**2 * sum_gd) / count
    level = (mean_bar - gain * sum_g) / count
    x_bar = _row(gain, x) * g + _row(along, x) * d + _row(level, x)
    scale_bar = (inverse * sum_gd).astype(scale.dtype)
    return x_bar.astype(x.dtype), scale_bar, sum_g.astype(bias.dtype)


_batch_norm.defvjp(_batch_norm_fwd, _batch_norm_bwd)
