"""Cutout inside jit, on uint8 batches."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.meshes import on_any_mesh

_GREY = 127


@on_any_mesh
def cutout(images: jax.Array, key: jax.Array) -> jax.Array:
    """Greys out a square of half the side, centred anywhere, cut at the border.

    Args:
      images: [B, H, W, C] uint8.
      key: random key.

    Returns:
      [B, H, W, C] uint8; at most (min(H, W) // 2)² pixels of an image have changed.
    """
    batch, height, width, _ = images.shape
    side = min(height, width) // 2
    centre = jax.random.uniform(key, (2, batch, 1), jnp.float32)

    def covered(centre, size):  # [B, 1] -> [B, size]
        start = jnp.floor(centre * size).astype(jnp.int32) - side // 2
        position = jnp.arange(size, dtype=jnp.int32)[None, :]
        return (position >= start) & (position < start + side)

    rows, columns = covered(centre[0], height), covered(centre[1], width)
    hole = rows[:, :, None, None] & columns[:, None, :, None]
    return jnp.where(hole, jnp.uint8(_GREY), images)
