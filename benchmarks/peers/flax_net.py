"""The same network as a plain flax module, for a plain `jax.jit`."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from upsilon_jax.models import Classifier
from upsilon_jax.models.wide_resnet import EPSILON, SLOPE, STEM_CHANNELS
from upsilon_jax.types import Head


class Backbone(nn.Module):
    """A Wide-ResNet of `nn.Conv` and `nn.BatchNorm`; parameters are named as ours."""

    depth: int
    width: int
    decay: float

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x = nn.Conv(STEM_CHANNELS, (3, 3), use_bias=False, name="stem")(x)
        for group in range(3):
            for unit in range((self.depth - 4) // 6):
                x = Unit(
                    channels=STEM_CHANNELS * 2**group * self.width,
                    stride=2 if group > 0 and unit == 0 else 1,
                    activate_skip=group == unit == 0,
                    decay=self.decay,
                    name=f"group{group + 1}_unit{unit + 1}",
                )(x, train)
        norm = nn.BatchNorm(
            not train, momentum=self.decay, epsilon=EPSILON, name="norm"
        )
        return nn.leaky_relu(norm(x), SLOPE).mean(axis=(1, 2))


class Unit(nn.Module):
    """Pre-activation residual unit."""

    channels: int
    stride: int
    activate_skip: bool
    decay: float

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        norm = partial(nn.BatchNorm, not train, momentum=self.decay, epsilon=EPSILON)
        conv = partial(nn.Conv, self.channels, use_bias=False)
        stride = (self.stride, self.stride)
        y = nn.leaky_relu(norm(name="norm1")(x), SLOPE)
        skip = y if self.activate_skip else x
        y = conv(kernel_size=(3, 3), strides=stride, name="conv1")(y)
        y = nn.leaky_relu(norm(name="norm2")(y), SLOPE)
        y = conv(kernel_size=(3, 3), name="conv2")(y)
        if x.shape[-1] != self.channels:
            skip = conv(kernel_size=(1, 1), strides=stride, name="skip")(skip)
        return skip + y


def build(depth: int, width: int, outputs: int, decay: float) -> Classifier:
    """Backbone and head, a module for `upsilon_jax.models.forward_of`."""
    return Classifier(Backbone(depth, width, decay), {"logits": Head(outputs)})


def load_stats(stats: Any) -> Any:
    """Our running statistics under flax's names."""
    if not hasattr(stats, "items"):
        return jnp.array(stats)
    return {
        {"variance": "var"}.get(name, name): load_stats(value)
        for name, value in stats.items()
    }
