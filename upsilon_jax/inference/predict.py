"""Outputs of a network over whole sets of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from upsilon_jax.kernels.augment import normalize
from upsilon_jax.runtime import interrupts, sharding
from upsilon_jax.types import Forward, Outputs


def make_predict(
    forward: Forward, mean: Sequence[float], std: Sequence[float]
) -> Callable:
    """Clean images through the network with its running BatchNorm statistics.

    Returns:
      (params, stats, images uint8 [M, H, W, C]) -> Outputs, not yet jitted.
    """

    def predict(params, stats, images) -> Outputs:
        clean = normalize(images / 255, tuple(mean), tuple(std))
        outputs, _ = forward(params, stats, clean, None, False)
        return outputs

    return predict


def predict_all(
    predict: Callable, params, stats, chunks: Iterable[jax.Array], mesh: Mesh
) -> Outputs:
    """Outputs for uint8 chunks [batch, H, W, C], joined: [n, ...] sharded by rows."""
    parts = []
    for chunk in chunks:
        interrupts.check()
        parts.append(predict(params, stats, chunk))
    join = lambda *part: jax.device_put(jnp.concatenate(part), sharding.rows(mesh))
    return jax.tree.map(join, *parts)
