"""How runs take their steps: one alone, or several seeds side by side in one program.

Seeds side by side each have their own devices, and one call steps them all. On a single
device they train one after the other instead, with one compiled step: there `vmap` is
slower than separate calls (`python -m benchmarks --rows=12`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.compilation import jit
from upsilon_jax.training.setup import TRAIN_KEY, Run
from upsilon_jax.types import TrainState


class Stepper(NamedTuple):
    """One or several runs, seen as one."""

    join: Callable[[Sequence[TrainState]], Any]  # states of the runs -> one to step
    part: Callable[[Any], list[TrainState]]  # its inverse
    step: Callable  # (joined state, batches of the runs) -> (joined state, metrics)


def make_stepper(runs: Sequence[Run], *, supervised: bool) -> Stepper:
    """Of runs that differ in seed and mesh only; metrics get a first axis over runs."""
    kind = "supervised" if supervised else "semi_supervised"
    program = getattr(runs[0].programs, kind)
    keys = [jax.random.fold_in(run.key, TRAIN_KEY) for run in runs]
    if len(runs) == 1:
        return Stepper(
            join=lambda states: states[0],
            part=lambda state: [state],
            step=lambda state, batches: program(state, batches[0], keys[0]),
        )
    meshes = [run.mesh for run in runs]
    beside = sharding.side_by_side(
        lambda state, batch, key: program.__wrapped__(
            state, batch, jax.random.wrap_key_data(key)
        ),
        meshes,
    )
    compiled = jit(beside, donate_argnums=0)
    joined_keys = sharding.join([jax.random.key_data(key) for key in keys], meshes)
    return Stepper(
        join=lambda states: sharding.join(states, meshes),
        part=lambda state: sharding.part(state, meshes),
        step=lambda state, batches: compiled(
            state, sharding.join(batches, meshes), joined_keys
        ),
    )
