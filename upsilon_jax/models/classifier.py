"""A backbone with named heads: images -> every output a method asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from upsilon_jax.types import Head, Outputs

COSINE_SCALE = 10.0
# Smallest squared norm a vector is divided by: keeps 0/0 out of values and gradients.
_TINY = 1e-24


def _unit(x, axis):
    square = jnp.sum(x * x, axis, keepdims=True)
    return x * jax.lax.rsqrt(jnp.maximum(square, _TINY))


class LinearHead(nn.Module):
    """H W + b, or 10 · <h/|h|, W_j/|W_j|> where `head.kind` is "cosine"."""

    head: Head

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        size = self.head.size
        shape = (size,) if isinstance(size, int) else tuple(size)
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
    """

    backbone: nn.Module
    heads: Mapping[str, Head]

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> Outputs:
        features = self.backbone(images, train)
        outputs = {"features": features}
        for name, head in self.heads.items():
            outputs[name] = LinearHead(head, name=f"head_{name}")(features)
        return outputs
