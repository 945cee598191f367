"""Several classifiers of the same images: where they agree, and how alike they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp

_TINY = 1e-12  # smallest probability a logarithm sees


def agreement(prob: jax.Array) -> jax.Array:
    """exp(-mean_{g,h,c} |p_gc - p_hc|) of H classifiers, [M, H, C] -> [M] in (0, 1].

    The mean is over all H² pairs, those of a classifier with itself too.
    """
    apart = jnp.abs(prob[:, :, None] - prob[:, None])
    return jnp.exp(-jnp.mean(apart, axis=(1, 2, 3)))


def mutual_information(prob: jax.Array) -> jax.Array:
    """Mean over pairs g < h of the mutual information of two classifiers' outputs.

        I(g, h) = Σ_cd J_cd log(J_cd / (p̄_gc p̄_hd)),   J = mean_i p_g(i) p_h(i)ᵀ

    Args:
      prob: [M, H, C], H ≥ 1.

    Returns:
      [] ≥ 0; 0 for H = 1.
    """
    num_rows, num_heads, num_classes = prob.shape
    if num_heads == 1:
        return jnp.zeros((), prob.dtype)
    flat = prob.reshape(num_rows, -1)
    log = lambda x: jnp.log(jnp.maximum(x, _TINY))
    # Not in bfloat16 on a TPU: J must have the very means that it is compared with.
    joint = jnp.matmul(flat.T, flat, precision="highest") / num_rows
    log_mean = log(jnp.mean(flat, axis=0))
    terms = joint * (log(joint) - log_mean[:, None] - log_mean[None, :])
    blocks = terms.reshape(num_heads, num_classes, num_heads, num_classes)
    pairs = jnp.triu(jnp.sum(blocks, axis=(1, 3)), k=1)
    return jnp.sum(pairs) / (num_heads * (num_heads - 1) / 2)


def otsu(values: jax.Array, num_bins: int = 256) -> jax.Array:
    """The threshold that parts [N] values in two classes best (Otsu 1979).

        argmax_t w₀ w₁ (μ₀ - μ₁)²    over the centres t of bins from the least to the
                                     largest; class 0 has the bins up to t

    Where all values are equal it is that value.
    """
    low, high = jnp.min(values), jnp.max(values)
    width = jnp.where(high > low, high - low, 1) / num_bins
    bins = jnp.clip((values - low) / width, 0, num_bins - 1).astype(jnp.int32)
    counts = jnp.zeros(num_bins, values.dtype).at[bins].add(1)
    centres = low + width * (jnp.arange(num_bins) + 0.5)
    below, above = jnp.cumsum(counts)[:-1], jnp.cumsum(counts[::-1])[::-1][1:]
    total = counts * centres
    mean_below = jnp.cumsum(total)[:-1] / jnp.maximum(below, 1)
    mean_above = jnp.cumsum(total[::-1])[::-1][1:] / jnp.maximum(above, 1)
    best = centres[jnp.argmax(below * above * (mean_below - mean_above) ** 2)]
    return jnp.where(high > low, best, low)
