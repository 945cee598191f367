"""How long a run will take, said before its first step.

A few calls of each program are timed on a copy of the state. They take what the first
epoch draws, keep no result and touch no random stream, so the run that follows is the
same bit for bit. Compilation comes with them instead of later.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from upsilon_jax.data.samplers import Draws
from upsilon_jax.runtime import interrupts
from upsilon_jax.training.epoch import draw
from upsilon_jax.training.progress import Progress
from upsilon_jax.training.refresh import seconds_of_image
from upsilon_jax.training.setup import TRAIN_KEY, Run, steps_per_call
from upsilon_jax.types import TrainState
from upsilon_jax.workdir.observer import Observer
from upsilon_jax.workdir.pace import Pace

# Of each program one call compiles and two are timed. With prediction that is the work
# of nine calls of the train step: 2 % of the shortest run that is probed.
_TIMED = 2
_FEWEST_CALLS = 450

_WORTH_SAYING = 0.05  # share of the time
_LONG = 3600  # seconds from which a quicker setting is named
_FEWEST_EPOCHS = 20  # that a quicker setting has
# Share of the time that is left with half the image size, and with half the width: of
# a WRN-16-2 on images of 32×32 it was 0.26 and 0.28, on two CPU cores.
_HALF_SIZE, _HALF_WIDTH = 0.3, 0.3
_SMALLEST_SIZE = 16


def announce(run: Run, progress: Progress, observer: Observer) -> None:
    """Says how many steps are to be taken, and about how long they will take.

    All processes must call it at the same time: they time together.
    """
    pace = observer.pace
    kinds = {kind: n for kind, n in pace.steps_left(progress.step).items() if n}
    if not kinds:
        return
    if sum(kinds.values()) >= _FEWEST_CALLS * steps_per_call(run.config):
        pace.expect(**probe(run, progress.state, kinds))
    observer.say(plan(pace, progress.step, progress.epoch))
    seconds = pace.left(progress.step, progress.epoch)
    if seconds and seconds > _LONG and not progress.step:
        flags, less = quicker(run.config, run.source.image_shape[0], seconds)
        if flags:
            observer.say(
                f"for a quicker look stop it and give another --workdir with {flags}: "
                f"{duration(less)}, and less accurate"
            )


def plan(pace: Pace, step: int, epoch: int) -> str:
    """What is left of a run, in one line; with times where they are known."""
    left, seconds = pace.steps_left(step), pace.left(step, epoch)
    each = lambda kind: f" ({pace.seconds_of(kind):.2g} s each)" if seconds else ""
    names = {True: "on labeled images alone", False: "with unlabeled ones"}
    parts = [f"{n:,} {names[kind]}{each(kind)}" for kind, n in left.items() if n]
    line = f"{sum(left.values()):,} steps to take"
    if seconds:
        line += f", {duration(seconds)}"
    line += f": {', then '.join(parts)}"
    between = pace.between_left(epoch)
    if seconds and between > _WORTH_SAYING * seconds:
        line += f"; {between / seconds:.0%} of the time for refreshes and evaluations"
    return line


def quicker(
    config: ml_collections.ConfigDict, image_size: int, seconds: float
) -> tuple[str, float]:
    """Flags that bring a run near an hour, and the seconds it then takes.

    Smaller images and a narrower network come first, as long as otherwise too few
    epochs would be left to learn anything; the epochs keep their proportions.
    """
    train, flags = config.train, {}
    enough = min(_FEWEST_EPOCHS, train.epochs)
    too_long = lambda: seconds * enough / train.epochs > _LONG
    if too_long() and image_size >= 2 * _SMALLEST_SIZE:
        flags["data.image_size"] = image_size // 2
        seconds *= _HALF_SIZE
    if too_long() and config.model.width > 1:
        flags["model.width"] = config.model.width // 2
        seconds *= _HALF_WIDTH
    epochs = min(max(int(train.epochs * _LONG / seconds), enough), train.epochs)
    if epochs < train.epochs:
        flags["train.epochs"] = epochs
        flags["train.pretrain_epochs"] = train.pretrain_epochs * epochs // train.epochs
        seconds *= epochs / train.epochs
    return " ".join(f"--config.{name}={n}" for name, n in flags.items()), seconds


def duration(seconds: float) -> str:
    """A time as people say it."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if minutes < 1:
        return "less than a minute"
    if minutes < 100:
        return f"about {minutes} min"
    return f"about {hours} h" if hours < 48 else f"about {round(hours / 24)} days"


def probe(run: Run, state: TrainState, kinds: Collection[bool]) -> dict[str, Any]:
    """What `Pace.expect` takes: measured seconds.

    Args:
      run: what will be trained.
      state: where it starts; it is left as it is.
      kinds: of steps that will be taken; True is supervised.
    """
    splits, image = run.splits, seconds_of_image(run, state)
    return {
        "step": {kind: _seconds_of_step(run, state, kind) for kind in kinds},
        "refresh": image * (len(splits.unlabeled) + len(splits.valid)),
        "evaluate": 2 * image * len(splits.test),  # averaged and live weights
    }


def _seconds_of_step(run: Run, state: TrainState, supervised: bool) -> float:
    positions = np.arange(0 if supervised else len(run.splits.unlabeled))
    draws = draw(run, 0, positions)
    wanted = (1 + _TIMED) * steps_per_call(run.config)
    taken = np.arange(wanted) % len(draws.label)
    draws = Draws(*(part[taken] for part in draws))
    programs = run.programs
    program = programs.supervised if supervised else programs.semi_supervised
    key = jax.random.fold_in(run.key, TRAIN_KEY)
    state = jax.tree.map(jnp.copy, state)  # the step takes its arrays away
    times = []
    with run.feed.batches(draws) as batches:
        for batch, count in batches:
            interrupts.check()
            state, _ = program(state, batch, np.int32(count), key)
            jax.block_until_ready(state)
            times.append(time.monotonic())
    return (times[-1] - times[0]) / (_TIMED * steps_per_call(run.config))
