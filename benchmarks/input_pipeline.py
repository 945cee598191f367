"""Does the input keep up with the step?  python -m benchmarks.input_pipeline.

Time of a train step with its input pipeline over the time of the same step on one fixed
batch, for images that are resident on the device and for images that are streamed from
array_record files and decoded on the way. Needs the real CIFAR-10
(`python -m upsilon_jax.data configs/cifar10.py`); a minute or two on two CPU cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from configs import cifar10
from upsilon_jax import models
from upsilon_jax.config import build_method, make_schedule
from upsilon_jax.config.from_data import draw_splits
from upsilon_jax.data.samplers import draw_epoch
from upsilon_jax.data.source import Source, load_source
from upsilon_jax.runtime import sharding
from upsilon_jax.training import feed
from upsilon_jax.training.programs import Programs, make_programs
from upsilon_jax.training.setup import build_model, build_optimizer
from upsilon_jax.training.step import Pixels, init_state
from upsilon_jax.types import Splits, TrainState

LIMIT = 1.10  # the step with its input may take this much of the step without
# Half the paper's network and half its batch: the input has less time to hide in.
DEPTH, BATCH_SIZE = 16, 64
STEPS, ROUNDS = 4, 4  # the best of so many rounds of so many steps each


class Trained(NamedTuple):
    """A network in training: all that a step needs but its images."""

    mesh: jax.sharding.Mesh
    programs: Programs
    state: TrainState
    key: jax.Array


def measure(*, steps: int = STEPS, rounds: int = ROUNDS) -> dict[str, float]:
    """Measures both ways, the step with and without input in turn.

    Returns:
      `resident` and `streamed`: the ratios; `*_seconds`: of a step with its input, and
      `fixed_seconds` of the step alone.

    Raises:
      DataNotPrepared: CIFAR-10 is not on this disk.
    """
    source = load_source("cifar10", resident=False)
    config = cifar10.get_config()
    config.model.depth = DEPTH
    config.train.batch_size = BATCH_SIZE
    splits = draw_splits(config, source)
    mesh, programs, state, key = _start(config, source, splits)
    draws = draw_epoch(
        splits.labeled,
        np.zeros(len(splits.labeled), np.int32),
        splits.unlabeled,
        np.arange(len(splits.unlabeled)),
        batch_size=BATCH_SIZE,
        epoch=0,
        steps_per_epoch=steps,
        seed=0,
    )

    def run(batches) -> None:
        nonlocal state
        for batch, count in batches:
            state, _ = programs.semi_supervised(state, batch, count, key)
        jax.block_until_ready(state)

    def with_input(images: feed.Feed) -> Callable[[], None]:
        def epoch() -> None:  # from opening to closing: no read is left uncounted
            with images.batches(draws) as batches:
                run(batches)

        return epoch

    used = {"train": np.sort(np.concatenate([splits.labeled, splits.unlabeled]))}
    ahead = config.data.prefetch_bytes
    feeds = {
        "resident": feed.resident(
            source, used, mesh, programs.gather, steps_per_call=1
        ),
        "streamed": feed.streamed(source, mesh, steps_per_call=1, prefetch_bytes=ahead),
    }
    with feeds["resident"].batches(draws) as batches:
        fixed = next(batches)
    cases = {"fixed": lambda: run([fixed] * steps)}
    cases |= {name: with_input(images) for name, images in feeds.items()}
    seconds = _best_of_turns(cases, rounds)
    return {
        **{name: seconds[name] / seconds["fixed"] for name in feeds},
        **{f"{name}_seconds": spent / steps for name, spent in seconds.items()},
    }


def _start(config: ConfigDict, source: Source, splits: Splits) -> Trained:
    """The Υ-Model before its first step."""
    num_unlabeled = len(splits.unlabeled)
    num_ood = len(splits.classes) - splits.num_classes
    method = build_method(config, splits.num_classes, num_ood, num_unlabeled)
    schedule = make_schedule(config, method, num_unlabeled)
    module, optimizer = build_model(config, method), build_optimizer(config, schedule)
    mesh = sharding.data_mesh()
    programs = make_programs(
        method,
        models.forward_of(module),
        optimizer,
        Pixels(source.mean, source.std, config.data.augmentation),
        mesh,
        ema_decay=config.train.ema_decay,
    )
    params, stats = models.initialize(module, source.image_shape, config.seed)
    key = sharding.replicate(jax.random.key(0), mesh)
    method_state = method.init(key, params, num_unlabeled)
    state = init_state(optimizer, params, stats, method_state)
    return Trained(mesh, programs, sharding.replicate(state, mesh), key)


def _best_of_turns(
    cases: dict[str, Callable[[], None]], rounds: int
) -> dict[str, float]:
    """The least seconds of each, taken in turn, so that a busy moment hits them all."""
    for case in cases.values():
        case()  # compiles, opens files
    spent = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            spent[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in spent.items()}


def main() -> None:
    """Prints the ratios; exit code 1 if one is above the limit."""
    found = measure()
    print(f"step on a fixed batch: {1e3 * found['fixed_seconds']:.0f} ms")
    for name in ("resident", "streamed"):
        milliseconds = 1e3 * found[f"{name}_seconds"]
        print(f"{name} input: {milliseconds:.0f} ms, ratio {found[name]:.3f}")
    if max(found["resident"], found["streamed"]) > LIMIT:
        sys.exit(f"the input does not keep up: a ratio is above {LIMIT}")


if __name__ == "__main__":
    main()
