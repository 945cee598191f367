"""The Wide-ResNet of Zagoruyko and Komodakis, as used for semi-supervised learning.

A 3×3 convolution to 16 channels, three groups of (depth - 4) / 6 pre-activation units
with 16, 32, 64 times `width` channels, and a mean over the whole image: any image size
will do. No convolution has a bias, the leaky ReLU has slope 0.1 everywhere.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from upsilon_jax.kernels.batch_norm import batch_norm_leaky_relu, normalize_leaky_relu
from upsilon_jax.models.convolution import convolve

STEM_CHANNELS = 16
EPSILON = 1e-3  # of BatchNorm
SLOPE = 0.1  # of the leaky ReLU


class Convolution(nn.Module):
    """A square convolution, zero-padded to "SAME", without bias."""

    channels: int
    size: int
    stride: int = 1
    native: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        shape = (self.size, self.size, x.shape[-1], self.channels)
        kernel = self.param("kernel", nn.initializers.zeros, shape)
        kernel = kernel.astype(x.dtype)
        return convolve(x, kernel, self.stride, native=self.native)


class NormActivation(nn.Module):
    """BatchNorm and leaky ReLU.

    In training the batch's own statistics normalise, and the running ones move:
    new = decay · old + (1 - decay) · batch, with the biased variance.
    """

    decay: float

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        shape = x.shape[-1:]
        scale = self.param("scale", nn.initializers.ones, shape)
        bias = self.param("bias", nn.initializers.zeros, shape)
        mean = self.variable("batch_stats", "mean", jnp.zeros, shape)
        variance = self.variable("batch_stats", "variance", jnp.ones, shape)
        options = {"epsilon": EPSILON, "slope": SLOPE}
        if not train:
            return normalize_leaky_relu(
                x, mean.value, variance.value, scale, bias, **options
            )
        y, *batch = batch_norm_leaky_relu(x, scale, bias, **options)
        for running, new in zip((mean, variance), batch, strict=True):
            running.value = self.decay * running.value + (1 - self.decay) * new
        return y


class Unit(nn.Module):
    """x + F(x): twice BatchNorm, leaky ReLU and a 3×3 convolution.

    The branch always starts from the activated tensor. The skip carries the raw one,
    except where `activate_skip`; a 1×1 convolution widens it if it has to.
    """

    channels: int
    stride: int
    activate_skip: bool
    bn_decay: float
    native: bool = False

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        y = NormActivation(self.bn_decay, name="norm1")(x, train)
        skip = y if self.activate_skip else x
        convolution = partial(Convolution, self.channels, native=self.native)
        y = convolution(3, self.stride, name="conv1")(y)
        y = NormActivation(self.bn_decay, name="norm2")(y, train)
        y = convolution(3, name="conv2")(y)
        if x.shape[-1] != self.channels:
            skip = convolution(1, self.stride, name="skip")(skip)
        return skip + y


class WideResNet(nn.Module):
    """Images [B, H, W, channels] -> features [B, 64 · width].

    Attributes:
      depth: 6n + 4 layers, n units a group.
      width: channels as a multiple of 16, 32, 64.
      dtype: of the computation; parameters and statistics stay float32.
      bn_decay: of the running BatchNorm statistics.
      native: computes 3×3 convolutions on a CPU by a compiled function.
    """

    depth: int = 28
    width: int = 2
    dtype: Any = jnp.float32
    bn_decay: float = 0.999
    native: bool = False

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        units, rest = divmod(self.depth - 4, 6)
        if units < 1 or rest:
            raise ValueError(f"depth must be 6n + 4 with n ≥ 1, got {self.depth}")
        if self.width < 1:
            raise ValueError(f"width must be ≥ 1, got {self.width}")
        x = images.astype(self.dtype)
        x = Convolution(STEM_CHANNELS, 3, name="stem")(x)
        for group in range(3):
            for unit in range(units):
                x = Unit(
                    channels=STEM_CHANNELS * 2**group * self.width,
                    stride=2 if group > 0 and unit == 0 else 1,
                    activate_skip=group == 0 and unit == 0,
                    bn_decay=self.bn_decay,
                    native=self.native,
                    name=f"group{group + 1}_unit{unit + 1}",
                )(x, train)
        x = NormActivation(self.bn_decay, name="norm")(x, train)
        wide = jnp.promote_types(x.dtype, jnp.float32)
        return jnp.mean(x, axis=(1, 2), dtype=wide)
