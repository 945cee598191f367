"""Convolution of images in NHWC layout."""

from __future__ import annotations

import jax


def convolve(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """[B, H, W, in] * [k, k, in, out] -> [B, ⌈H/stride⌉, ⌈W/stride⌉, out], "SAME"."""
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
