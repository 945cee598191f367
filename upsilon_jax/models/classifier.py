"""A backbone with named heads: images -> every output a method asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from upsilon_jax.models.wide_resnet import SLOPE
from upsilon_jax.types import Head, Outputs

COSINE_SCALE = 10.0
# Smallest squared norm a vector is divided by: keeps 0/0 out of values and gradients.
_TINY = 1e-24


def _unit(x, axis):
    square = jnp.sum(x * x, axis, keepdims=True)
    return x * jax.lax.rsqrt(jnp.maximum(square, _TINY))


class HeadLayers(nn.Module):
    """h W + b, or 10 · <h/|h|, W_j/|W_j|> where `head.kind` is "cosine".

    h is the input [B, ...], flattened, after a leaky-ReLU layer for every entry of
    `head.hidden`; these layers have biases whatever `head.bias` is.
    """

    head: Head

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        shape = self.head.shape
        features = inputs.reshape(inputs.shape[0], -1)
        for number, width in enumerate(self.head.hidden, 1):
            layer = nn.Dense(
                width, kernel_init=nn.initializers.zeros, name=f"hidden{number}"
            )
            features = nn.leaky_relu(layer(features), SLOPE)
        width = math.prod(shape)
        kernel = self.param(
            "kernel", nn.initializers.zeros, (features.shape[-1], width)
        )
        if self.head.kind == "cosine":
            y = COSINE_SCALE * _unit(features, -1) @ _unit(kernel, 0)
        else:
            y = features @ kernel
            if self.head.bias:
                y += self.param("bias", nn.initializers.zeros, (width,))[None, :]
        return y.reshape(features.shape[0], *shape)


class Classifier(nn.Module):
    """Images [B, H, W, channels] -> Outputs, in at least float32.

    Attributes:
      backbone: a module from images and `train` to features [B, F].
      heads: name -> Head; the output of size s is [B, s], of size (s, t) [B, s, t].
        A head whose source is another head stands after it.
    """

    backbone: nn.Module
    heads: Mapping[str, Head]

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> Outputs:
        features = self.backbone(images, train)
        outputs = {"features": features}
        for name, head in self.heads.items():
            source = outputs[head.source]
            if head.detach:
                source = jax.lax.stop_gradient(source)
            outputs[name] = HeadLayers(head, name=f"head_{name}")(source)
        return outputs
