"""The compiled functions of a run, and which runs may share them."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import NamedTuple

import jax
import ml_collections
import optax
from jax.sharding import Mesh

from upsilon_jax.data.source import Source
from upsilon_jax.inference.predict import make_predict
from upsilon_jax.methods import Method
from upsilon_jax.runtime.compilation import jit
from upsilon_jax.runtime.sharding import replicated, rows
from upsilon_jax.training.step import (
    Pixels,
    make_refresh,
    make_train_step,
    make_train_steps,
)
from upsilon_jax.types import Forward, Splits


class Programs(NamedTuple):
    """The compiled functions of a run."""

    # (state, RawBatch, count, key) -> (state, metrics); where several steps are one
    # call, the arrays of the batch and the metrics have a first axis over the steps
    supervised: Callable
    semi_supervised: Callable
    predict: Callable  # (params, stats, images uint8 [M, H, W, C]) -> Outputs
    refresh: Callable | None  # (state, Predictions, where, key) -> MethodState
    gather: Callable  # (images uint8 [N, H, W, C], index [..., M]) -> [..., M, H, W, C]


def program_key(
    config: ml_collections.ConfigDict, source: Source, splits: Splits, mesh: Mesh
) -> Hashable:
    """All that the programs of a run depend on: runs with equal keys may share them.

    It is the whole config but for the seed, and what shapes the arrays or enters the
    programs as a constant.
    """
    fields = {name: value for name, value in config.to_dict().items() if name != "seed"}
    return (
        json.dumps(fields, sort_keys=True),
        *(len(part) for part in (splits.unlabeled, splits.valid, splits.classes)),
        splits.num_classes,
        *(source.image_shape, source.mean, source.std),
        mesh,
    )


def make_programs(
    method: Method,
    forward: Forward,
    optimizer: optax.GradientTransformation,
    pixels: Pixels,
    mesh: Mesh,
    *,
    ema_decay: float,
    steps_per_call: int = 1,
) -> Programs:
    """Everything compiled for a mesh; the train steps donate their state."""
    whole, by_rows = replicated(mesh), rows(mesh)

    def train(supervised):
        step = make_train_step(
            method,
            forward,
            optimizer,
            pixels,
            ema_decay=ema_decay,
            supervised=supervised,
        )
        if steps_per_call > 1:
            call = make_train_steps(step)
        else:
            call = lambda state, batch, count, key: step(state, batch, key)
        return jit(call, donate_argnums=0, out_shardings=whole)

    def gather(images, index):
        by_last_axis = rows(mesh, axis=index.ndim - 1)
        return jax.lax.with_sharding_constraint(images[index], by_last_axis)

    refresh = make_refresh(method)
    return Programs(
        supervised=train(True),
        semi_supervised=train(False),
        predict=jit(
            make_predict(forward, pixels.mean, pixels.std), out_shardings=by_rows
        ),
        refresh=refresh and jit(refresh, out_shardings=whole),
        gather=jit(gather),
    )
