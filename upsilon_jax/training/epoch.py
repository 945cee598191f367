"""The steps of one epoch: which images are drawn, and how they reach the devices."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from upsilon_jax.data.streams import HostBatch, Pipeline
from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.interrupts import Interrupts
from upsilon_jax.training import feed
from upsilon_jax.training.lockstep import Stepper
from upsilon_jax.training.progress import Trainee
from upsilon_jax.training.setup import Run
from upsilon_jax.training.step import RawBatch, RawBatches


def population(trainee: Trainee) -> np.ndarray | None:
    """Positions in D_u to draw from: None for all, empty for a supervised epoch."""
    run, state = trainee.run, trainee.progress.state
    pretraining = len(trainee.progress.history) < run.schedule.pretrain_epochs
    if not run.method.views or pretraining:
        return np.empty(0, np.int64)
    if not run.method.trains_on_selection:
        return None
    weight = run.method.selection(state.method).weight
    selected = np.flatnonzero(np.asarray(weight) > 0)
    masked = run.config.data.pseudo_batches == "masked"
    return None if masked and len(selected) else selected


def is_supervised(population: np.ndarray | None) -> bool:
    """Whether an epoch trains on labeled images only."""
    return population is not None and not len(population)


def train_epoch(
    squad: Sequence[Trainee],
    populations: Sequence[np.ndarray | None],
    stepper: Stepper,
    interrupts: Interrupts,
) -> None:
    """The steps of the current epoch that are still to be taken, by equals."""
    run, progress = squad[0].run, squad[0].progress
    pending: list[tuple[dict, int]] = []
    state = stepper.join([trainee.progress.state for trainee in squad])
    with contextlib.ExitStack() as stack:
        pipelines = [
            stack.enter_context(_pipeline(trainee, population))
            for trainee, population in zip(squad, populations, strict=True)
        ]
        try:
            for hosts in zip(*map(_calls(run), pipelines), strict=True):
                if interrupts.pending:  # what is not in the sums is lost
                    _log(squad, pending)
                    interrupts.check()
                batches = [
                    _put(trainee.run, host)
                    for trainee, host in zip(squad, hosts, strict=True)
                ]
                state, metrics = stepper.step(state, batches)
                count = len(hosts[0])
                pending.append((metrics, count))
                for trainee in squad:
                    trainee.progress.step += count
                if squad[0].epoch_is_over or _log_due(run, progress.step, count):
                    _log(squad, pending)
                if not all(trainee.active for trainee in squad):
                    return
        finally:
            for trainee, own in zip(squad, stepper.part(state), strict=True):
                trainee.progress.state = own


def _calls(run: Run) -> Callable[[Pipeline], Iterator[list[HostBatch]]]:
    """Groups the batches of a pipeline into calls of the compiled step."""

    def grouped(pipeline: Pipeline) -> Iterator[list[HostBatch]]:
        return iter(lambda: list(itertools.islice(pipeline, run.steps_per_call)), [])

    return grouped


def _put(run: Run, hosts: list[HostBatch]) -> RawBatch | RawBatches:
    if run.steps_per_call == 1:
        return run.feed.batch(hosts[0])
    return feed.several(run.feed, hosts, run.steps_per_call, run.mesh)


def _log_due(run: Run, step: int, count: int) -> bool:
    """Whether one of the last `count` steps was a multiple of `log_steps`."""
    return step % run.config.train.log_steps < count


def _pipeline(trainee: Trainee, population: np.ndarray | None) -> Pipeline:
    """Built anew for every epoch, so it always runs over the current D_l ∪ P."""
    run, epoch = trainee.run, len(trainee.progress.history)
    batch_size = run.config.train.batch_size
    return Pipeline(
        run.splits.labeled,
        run.train_classes[run.splits.labeled],
        run.splits.unlabeled,
        batch_size=batch_size,
        unlabeled_batch_size=0 if is_supervised(population) else batch_size,
        epoch=epoch,
        steps_per_epoch=run.schedule.steps_per_epoch,
        seed=run.config.seed,
        start=trainee.progress.step - epoch * run.schedule.steps_per_epoch,
        population=population,
        read=run.feed.read,
        shard=sharding.own_share(),
        image_shape=run.source.image_shape,
        prefetch_bytes=run.config.data.prefetch_bytes,
    )


def _log(squad: Sequence[Trainee], pending: list[tuple[dict, int]]) -> None:
    """Fetches what the device has reported since the last time: the only wait."""
    fetched = jax.device_get(pending)
    pending.clear()
    for number, trainee in enumerate(squad):
        # Metrics are scalars, [S] for the steps of a call, [runs, ...] for a squad.
        own = lambda value, i=number: np.reshape(value, (len(squad), -1))[i]
        steps = [
            {name: float(own(value)[step]) for name, value in metrics.items()}
            for metrics, count in fetched
            for step in range(count)
        ]
        if steps:
            trainee.log(steps)
