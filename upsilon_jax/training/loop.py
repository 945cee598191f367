"""The host loop: Algorithm 1 for one run, from top to bottom."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import ml_collections
import numpy as np
from jax.sharding import Mesh

from upsilon_jax import native
from upsilon_jax.config.from_data import is_complete
from upsilon_jax.data.splits import digest
from upsilon_jax.inference.metrics import measure_labels
from upsilon_jax.report.curves import save_curves
from upsilon_jax.training.epoch import train_epoch
from upsilon_jax.training.manifest import foreign_below, make_manifest
from upsilon_jax.training.progress import Progress, resume
from upsilon_jax.training.refresh import accuracy, final_measures, refresh
from upsilon_jax.training.setup import Run, Shared, initial_state, prepare
from upsilon_jax.workdir import files, schema
from upsilon_jax.workdir.checkpoint import Checkpoints, locked, tree_digest
from upsilon_jax.workdir.observer import Observer
from upsilon_jax.workdir.schema import Entry, Manifest, Result


def train_run(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    *,
    mesh: Mesh | None = None,
    shared: Shared | None = None,
    override_config: bool = False,
    label: str = "",
) -> Result:
    """Trains one run, or goes on where the workdir's checkpoint stands.

    Args:
      config: valid, for one seed.
      workdir: made if it is not there.
      mesh: the devices to use; None for all of them.
      shared: data and programs of other runs.
      override_config: goes on although the stored config differs.
      label: which of several runs this is, for what is shown.

    Returns:
      The result, which is also in the workdir.
    """
    # Of several processes the first alone writes; checkpoints are orbax's business.
    chief = jax.process_index() == 0
    workdir.mkdir(parents=True, exist_ok=True)
    with locked(workdir) if chief else contextlib.nullcontext():
        find = lambda config: files.find_result(
            workdir, config.to_dict(), override=override_config
        )
        if is_complete(config) and (found := find(config)):
            return found
        run = prepare(config, mesh=mesh, shared=shared)
        if found := find(run.config):  # what was left open is now chosen
            return found
        with _opened(run, workdir, chief, label) as (progress, checkpoints, observer):
            save = lambda: checkpoints.save(
                progress.number, progress.state, progress.record()
            )
            try:
                _train(run, progress, observer, save)
                result = _result(run, progress)
            except KeyboardInterrupt:
                _stop(progress, observer, save)
                raise
        if chief:
            # Only now is it known for sure whether C++ code ran, and what is foreign.
            manifest = schema.read(Manifest, workdir / files.MANIFEST)
            manifest = manifest._replace(
                native=result.native,
                foreign_below=foreign_below(run, progress.state, result.foreign),
            )
            files.write_json(workdir / files.MANIFEST, manifest)
            save_curves(result, workdir / files.CURVES)
            files.write_json(workdir / files.RESULT, result)
    return schema.parse(Result, schema.plain(result), str(workdir))


def _train(
    run: Run, progress: Progress, observer: Observer, save: Callable[[], None]
) -> None:
    """Algorithm 1.

    The order is fixed: refresh → evaluate → save → next batch → step → log. The step
    and the length of the history tell what comes next, so a run goes on wherever it was
    cut off.
    """
    schedule = run.schedule
    if progress.step == 0 and schedule.refresh_due(0):
        progress.state, *_ = refresh(run, progress.state, 0)
    clock = time.monotonic()
    while progress.epoch < schedule.epochs:
        start = time.monotonic()
        train_epoch(run, progress, observer.steps)
        if progress.diverged_step is not None:
            observer.say(
                f"diverged: the loss is not finite at step {progress.diverged_step}"
            )
            return
        _finish_epoch(run, progress, observer, clock, start)
        clock = time.monotonic()
        if schedule.save_due(progress.epoch):
            save()


def _stop(progress: Progress, observer: Observer, save: Callable[[], None]) -> None:
    """Saves what there is, before its time."""
    if progress.can_be_saved():
        save()
        observer.say(f"saved at step {progress.step}; the same command goes on there")
    else:
        observer.say("the same command goes on from the newest checkpoint")


def _finish_epoch(
    run: Run, progress: Progress, observer: Observer, clock: float, start: float
) -> None:
    """Refresh if due, evaluate if due, and add an entry to the history.

    `clock` is the time when the last entry was added, `start` that of the first step.
    """
    schedule, state, epoch = run.schedule, progress.state, progress.epoch + 1
    trained = time.monotonic()
    imbalance, foreign, scores = None, None, (None, None)
    if schedule.refresh_due(epoch):
        state, imbalance, foreign = refresh(run, state, epoch)
    refreshed = time.monotonic()
    if schedule.evaluate_due(epoch):
        scores = [accuracy(run, w) for w in (state.ema, (state.params, state.stats))]
    evaluated = time.monotonic()
    labels = run.method.selection(state.method)
    if labels is not None:
        observer.pseudo_labels(progress.step, labels, run.method.heads["logits"].size)
        labels = measure_labels(labels, run.hidden, run.splits.num_classes)
    steps = schedule.steps_per_epoch
    entry = Entry(
        epoch=epoch,
        step=progress.step,
        metrics={name: total / steps for name, total in progress.sums.items()},
        accuracy=scores[0],
        accuracy_live=scores[1],
        labels=labels,
        imbalance=imbalance,
        foreign_share=foreign and foreign.share,
        train_seconds=trained - start,
        refresh_seconds=refreshed - trained,
        evaluate_seconds=evaluated - refreshed,
        epoch_seconds=time.monotonic() - clock,
    )
    progress.finish_epoch(state, entry)
    observer.epoch(entry)


@contextlib.contextmanager
def _opened(
    run: Run, workdir: pathlib.Path, chief: bool, label: str
) -> Iterator[tuple[Progress, Checkpoints, Observer]]:
    """The run at its newest usable checkpoint, or at step 0, and what it writes to.

    Writes what a run leaves at its start.
    """
    keep = run.config.train.keep_checkpoints
    with contextlib.closing(Checkpoints(workdir, keep=keep)) as checkpoints:
        state, lines = initial_state(run), list(run.notes)
        if chief:
            files.write_json(workdir / files.CONFIG, run.config.to_dict())
            files.write_json(workdir / files.MANIFEST, make_manifest(run, state))
            lines += files.write_skipped(workdir / files.SKIPPED, run.source.skipped)
        checkpoint, complaints = checkpoints.restore(state)
        progress = resume(checkpoint) if checkpoint else Progress(state)
        steps = (run.schedule.total_steps, progress.step)
        with Observer(workdir, *steps, active=chief, label=label) as observer:
            for line in (*lines, *complaints):
                observer.say(line)
            yield progress, checkpoints, observer


def _result(run: Run, progress: Progress) -> Result:
    """The contents of `result.json`."""
    state, diverged = progress.state, progress.diverged_step is not None
    last = progress.history[-run.config.train.report_epochs :]
    not_measured = dict.fromkeys(("confusion", "auroc", "imbalance", "foreign"))
    return Result(
        format=schema.FORMAT,
        status=schema.DIVERGED if diverged else schema.FINISHED,
        seed=run.config.seed,
        config=run.config.to_dict(),
        classes=list(run.splits.classes),
        accuracy=_mean([entry.accuracy for entry in last]),
        accuracy_live=_mean([entry.accuracy_live for entry in last]),
        **(not_measured if diverged else final_measures(run, state.ema)),
        diverged_step=progress.diverged_step,
        resumed_from=progress.resumed_from,
        split_digest=digest(run.splits),
        params_digest=tree_digest((state.params, state.stats, state.ema, state.opt)),
        native=native.in_use(),
        versions=files.versions(),
        history=progress.history,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Of those that were measured; None if none was, before an early divergence."""
    measured = [value for value in values if value is not None]
    return float(np.mean(measured)) if measured else None
