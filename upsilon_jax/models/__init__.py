"""Networks: `build` one, draw its values with `initialize`, run it with `forward_of`.

module = build("wide_resnet", {"logits": Head(10)}, depth=28, width=2)
params, stats = initialize(module, image_shape=(32, 32, 3), seed=0)
outputs, stats = forward_of(module)(params, stats, images, key, train=True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp

from upsilon_jax.models.classifier import Classifier
from upsilon_jax.models.initial import initialize, shapes_of
from upsilon_jax.models.wide_resnet import WideResNet
from upsilon_jax.types import Forward, Head, Outputs, Params, Stats

__all__ = ["MODELS", "Classifier", "build", "forward_of", "initialize", "shapes_of"]

MODELS = {"wide_resnet": WideResNet}

_DTYPES = ("float32", "bfloat16", "float64")
_KINDS = ("linear", "cosine")


def build(
    name: str,
    heads: Mapping[str, Head],
    *,
    depth: int = 28,
    width: int = 2,
    dtype: Any = "float32",
    bn_decay: float = 0.999,
    native: bool = False,
) -> Classifier:
    """Describes a network; it holds no arrays.

    Args:
      name: a key of `MODELS`.
      heads: the outputs, by name.
      depth: layers; a Wide-ResNet has 6n + 4.
      width: channels as a multiple of 16, 32, 64.
      dtype: of the computation inside the backbone. Initial parameters are float32
        whatever it is, outputs and statistics float32 or wider.
      bn_decay: of the running BatchNorm statistics, in [0, 1].
      native: where the program runs on one CPU device, a compiled function computes
        most convolutions; see `convolution.convolve`.

    Returns:
      A module for `initialize` and `forward_of`.
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; known: {', '.join(MODELS)}")
    if jnp.dtype(dtype).name not in _DTYPES:
        raise ValueError(f"dtype must be one of {_DTYPES}, got {dtype!r}")
    if not 0 <= bn_decay <= 1:
        raise ValueError(f"bn_decay must be in [0, 1], got {bn_decay}")
    sources = ["features"]
    for head_name, head in heads.items():
        _check_head(head_name, head, sources)
        sources.append(head_name)
    backbone = MODELS[name](depth, width, jnp.dtype(dtype), bn_decay, native)
    return Classifier(backbone, dict(heads))


def _check_head(name: str, head: Head, sources: Sequence[str]) -> None:
    if name == "features":
        raise ValueError('no head may be called "features"')
    if head.source not in sources:
        raise ValueError(
            f"head {name!r}: source must be one of {', '.join(sources)}, which stand "
            f"before it, got {head.source!r}"
        )
    if head.hidden and min(head.hidden) < 1:
        raise ValueError(f"head {name!r}: hidden must be positive, got {head.hidden}")
    if head.kind not in _KINDS:
        raise ValueError(f"head {name!r}: kind must be in {_KINDS}, got {head.kind!r}")
    shape = head.shape
    if not shape or math.prod(shape) < 1 or min(shape) < 1:
        raise ValueError(f"head {name!r}: size must be positive, got {head.size}")


def forward_of(module: Classifier) -> Forward:
    """The network as a function of its values, the form every method takes.

    forward(params, stats, images [B, H, W, channels], key, train) -> (Outputs, stats).
    With `train` the batch's own statistics normalise and the moved running statistics
    come back; else the running ones normalise and come back untouched. `key` is for
    networks that draw random numbers; none does so far.
    """

    def forward(
        params: Params, stats: Stats, images: jax.Array, key: jax.Array, train: bool
    ) -> tuple[Outputs, Stats]:
        variables = {"params": params, "batch_stats": stats}
        if not train:
            outputs = cast(Outputs, module.apply(variables, images, train=False))
            return outputs, stats
        outputs, new = module.apply(
            variables, images, train=True, mutable=["batch_stats"]
        )
        return outputs, new["batch_stats"]

    return forward
