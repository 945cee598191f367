"""The direction in which a prediction changes most (Miyato et al. 2018, §3.3)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import kl_divergence

# Guards of the two divisions below: a gradient of zero stays zero.
_LARGEST, _SQUARE = 1e-12, 1e-6


def unit_images(images: jax.Array) -> jax.Array:
    """Divides every image of [M, ...] by its Euclidean norm; 0 stays 0.

    First by its largest entry, so that squares of tiny gradients do not underflow.
    """
    axes = tuple(range(1, images.ndim))
    images /= _LARGEST + jnp.max(jnp.abs(images), axes, keepdims=True)
    return images * jax.lax.rsqrt(_SQUARE + jnp.sum(images**2, axes, keepdims=True))


def adversarial_direction(
    logits_fn: Callable[[jax.Array], jax.Array],
    images: jax.Array,
    logits: jax.Array,
    key: jax.Array,
    *,
    xi: float = 1e-2,
    num_iters: int = 1,
) -> jax.Array:
    """The top eigenvector of the Hessian of D(d) = KL(f(x) ‖ f(x + d)) at d = 0.

    By power iteration d ← unit(H d) from a random d. D has its minimum 0 at d = 0, so
    H d = ∇D(ξ d) / ξ up to O(ξ), one forward and one backward pass. ξ must be large
    enough for x + ξ d to differ from x in float32: on images of unit variance 1e-2 is
    right to three digits, the published 1e-6 is mostly rounding.

    Args:
      logits_fn: [M, ...] images -> [M, T] logits. It must return `logits` for `images`
        (the same BatchNorm statistics), else ∇D(0) ≠ 0 hides H d.
      images: [M, ...] x.
      logits: [M, T] at x.
      key: random key.
      xi: ξ, the length of the finite difference.
      num_iters: power iterations.

    Returns:
      [M, ...] unit vectors without gradient; 0 where f does not change.
    """

    def divergence(d):
        return jnp.sum(kl_divergence(logits, logits_fn(images + xi * d)))

    d = unit_images(jax.random.normal(key, images.shape, images.dtype))
    for _ in range(num_iters):
        d = unit_images(jax.grad(divergence)(d))
    return jax.lax.stop_gradient(d)
