"""Outputs of a network over whole sets of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from upsilon_jax.runtime import interrupts, sharding
from upsilon_jax.types import Outputs


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
