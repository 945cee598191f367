"""Initial values of parameters and statistics, drawn in numpy.

Drawing them with `jax.random` compiles one program per shape, some ten seconds for a
WRN-28-2 on a CPU; numpy takes a fraction of one. So the modules declare shapes only,
with zeros, which flax traces again at every call.
"""

from __future__ import annotations

import math
import zlib

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from upsilon_jax.types import Params, Stats

_CONSTANTS = {"scale": 1, "bias": 0, "mean": 0, "variance": 1}  # by name of the leaf


def kernel_std(shape: tuple[int, ...]) -> float:
    """He's fan-out rule for [k, k, in, out], Glorot's rule for [in, out]."""
    if len(shape) == 4:
        return math.sqrt(2 / (shape[0] * shape[1] * shape[3]))
    return math.sqrt(2 / (shape[0] + shape[1]))


def shapes_of(module: nn.Module, image_shape: tuple[int, ...]) -> tuple[Params, Stats]:
    """(params, stats) of a network, as trees of `jax.ShapeDtypeStruct`."""
    variables = _shapes(module, image_shape)
    return variables["params"], variables["batch_stats"]


def _shapes(module, image_shape):
    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    return jax.eval_shape(
        lambda x: module.init(jax.random.key(0), x, train=False), images
    )


def initialize(
    module: nn.Module, image_shape: tuple[int, int, int], seed: int
) -> tuple[Params, Stats]:
    """Draws the parameters and the running statistics of a network.

    Every array has its own random stream, named by the seed and by its path in the
    tree, so networks that differ in their heads only share the rest.

    Args:
      module: from `build`.
      image_shape: (H, W, channels).
      seed: ≥ 0.

    Returns:
      (params, stats), trees of float32 arrays.
    """
    if seed < 0:
        raise ValueError(f"seed must be ≥ 0, got {seed}")
    variables = _shapes(module, image_shape)

    def draw(path, leaf):
        name = path[-1].key
        if name in _CONSTANTS:
            return np.full(leaf.shape, _CONSTANTS[name], np.float32)
        stream = zlib.crc32(jax.tree_util.keystr(path).encode())
        values = np.random.default_rng([seed, stream]).standard_normal(leaf.shape)
        return (kernel_std(leaf.shape) * values).astype(np.float32)

    values = jax.tree_util.tree_map_with_path(draw, variables)
    values = jax.device_put(values)
    return values["params"], values["batch_stats"]
