"""The steps of one epoch: which images are drawn, and what the steps report."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import numpy as np

from upsilon_jax.data.samplers import Draws, draw_epoch
from upsilon_jax.runtime import interrupts
from upsilon_jax.training.progress import Progress
from upsilon_jax.training.setup import TRAIN_KEY, Run
from upsilon_jax.workdir.pace import Took

# Called with the last step, its metrics and the time since the last call whenever
# metrics are fetched.
Report = Callable[[int, dict[str, float], Took], None]


def unlabeled_positions(run: Run, progress: Progress) -> np.ndarray:
    """Positions in D_u that the current epoch draws from; none if it is supervised."""
    nothing, everything = np.empty(0, np.int64), np.arange(len(run.splits.unlabeled))
    pretraining = progress.epoch < run.schedule.pretrain_epochs
    if not run.method.views or pretraining:
        return nothing
    if not run.method.trains_on_selection:
        return everything
    labels = run.method.selection(progress.state.method)
    assert labels is not None  # `trains_on_selection` says that there is one
    selected = np.flatnonzero(np.asarray(labels.weight) > 0)
    masked = run.config.data.pseudo_batches == "masked"
    return everything if masked and len(selected) else selected


def train_epoch(run: Run, progress: Progress, report: Report) -> None:
    """Takes the steps of the current epoch that are still to be taken.

    Stops early at a step whose loss is not finite, and says so in `diverged_step`.
    """
    epoch, positions = progress.epoch, unlabeled_positions(run, progress)
    start = progress.step - epoch * run.schedule.steps_per_epoch
    draws = draw(run, epoch, positions, start=start)
    supervised = not len(positions)
    programs = run.programs
    program = programs.supervised if supervised else programs.semi_supervised
    key = jax.random.fold_in(run.key, TRAIN_KEY)
    pending: list[tuple[dict, int]] = []  # metrics on the device, and of how many steps
    last = progress.step + len(draws.label)
    tell = _timed(report, progress.step, supervised=supervised)
    with run.feed.batches(draws) as batches:
        try:
            for batch, count in batches:
                interrupts.check()
                state, metrics = program(progress.state, batch, np.int32(count), key)
                # `Progress.can_be_saved` is false until the last of these three.
                progress.state = state
                pending.append((metrics, count))
                progress.step += count
                due = progress.step % run.config.train.log_steps < count
                if due or progress.step == last:
                    _log(progress, pending, tell)
                    interrupts.check_together()
                if progress.diverged_step is not None:
                    return
        except KeyboardInterrupt:
            _log(progress, pending, tell)  # what is not in the sums is lost
            raise


def draw(run: Run, epoch: int, positions: np.ndarray, *, start: int = 0) -> Draws:
    """What the steps of an epoch take, from the `start`-th on.

    Args:
      run: whose images.
      epoch: its number, from 0.
      positions: in D_u, those that unlabeled images are drawn from; none: supervised.
      start: steps of the epoch that are taken already.
    """
    labeled = run.splits.labeled
    return draw_epoch(
        labeled,
        run.train_classes[labeled],
        run.splits.unlabeled,
        positions,
        batch_size=run.config.train.batch_size,
        epoch=epoch,
        steps_per_epoch=run.schedule.steps_per_epoch,
        seed=run.config.seed,
        start=start,
        unlabeled_ratio=run.config.data.unlabeled_ratio,
    )


def _timed(report: Report, step: int, *, supervised: bool) -> Callable:
    """`report` without its last argument: the time since `step`, or the last call."""
    clock = time.monotonic()

    def tell(now_at: int, metrics: dict[str, float]) -> None:
        nonlocal clock, step
        now = time.monotonic()
        report(now_at, metrics, Took(now_at - step, now - clock, supervised))
        clock, step = now, now_at

    return tell


def _log(progress: Progress, pending: list[tuple[dict, int]], tell: Callable) -> None:
    """Adds up the metrics since the last call: the only wait for the device."""
    fetched = jax.device_get(pending)
    pending.clear()
    steps = [
        # metrics are scalars, or [S] for the steps of a call
        {name: float(np.reshape(value, -1)[i]) for name, value in metrics.items()}
        for metrics, count in fetched
        for i in range(count)
    ]
    first = progress.step - len(steps) + 1
    for step, metrics in enumerate(steps, start=first):
        if not np.isfinite(metrics["loss"]):
            progress.diverged_step = step
            return
        for name, value in metrics.items():
            progress.sums[name] = progress.sums.get(name, 0.0) + value
    if steps:
        tell(progress.step, steps[-1])
