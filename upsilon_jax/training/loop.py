"""The host loop: Algorithm 1 for one run, from top to bottom."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Iterator

import jax
import ml_collections
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from upsilon_jax.config.from_data import left_open
from upsilon_jax.data.digest import file_digests
from upsilon_jax.inference.metrics import measure_labels
from upsilon_jax.report.page.workdir_files import remake_missing
from upsilon_jax.training.clusters import settle_clusters
from upsilon_jax.training.ending import concerns_of, make_result, write_end
from upsilon_jax.training.epoch import train_epoch
from upsilon_jax.training.estimate import announce
from upsilon_jax.training.findings import Found, find
from upsilon_jax.training.manifest import check_unchanged, make_manifest
from upsilon_jax.training.pretrained import (
    find_pretrained,
    leave_pretrained,
    pretrained_folder,
)
from upsilon_jax.training.progress import Progress, check_fits, resume
from upsilon_jax.training.refresh import accuracy, refresh
from upsilon_jax.training.setup import Run, Shared, initial_state, prepare
from upsilon_jax.types import TrainState
from upsilon_jax.workdir import files, records
from upsilon_jax.workdir.checkpoint import Checkpoints, clear_unfinished
from upsilon_jax.workdir.lock import locked
from upsilon_jax.workdir.observer import Observer, say
from upsilon_jax.workdir.pace import Pace
from upsilon_jax.workdir.saved import has_saved, set_run_aside
from upsilon_jax.workdir.schema import Entry, Manifest, Result
from upsilon_jax.workdir.sums import forget_sums, write_sums


def train_run(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    *,
    mesh: Mesh | None = None,
    shared: Shared | None = None,
    override_config: bool = False,
    start_over: bool = False,
    pretrained: pathlib.Path | None = None,
    label: str = "",
) -> Result:
    """Trains one run, or goes on where the workdir's checkpoint stands.

    Args:
      config: valid, for one seed.
      workdir: made if it is not there.
      mesh: the devices to use; None for all of them.
      shared: data and programs of other runs.
      override_config: goes on although the stored config differs.
      start_over: sets aside what is in the workdir, and begins at step 0.
      pretrained: a folder with the supervised epochs of other runs.
      label: which of several runs this is, for what is shown.

    Returns:
      The result, which is also in the workdir.
    """
    # Of several processes the first alone writes; checkpoints are orbax's business.
    chief = jax.process_index() == 0
    with locked(workdir) if chief else contextlib.nullcontext():
        if start_over:
            _set_aside_together(workdir)
        finished = lambda config: files.find_result(
            workdir,
            config.to_dict(),
            override=override_config,
            left_open=left_open(config),
        )
        if found := finished(config):  # the data may be gone
            if chief:
                remake_missing(workdir)
            return found
        shared = shared or Shared()
        told = lambda line: say(line, label) if chief else None
        config, said = settle_clusters(
            config, workdir, mesh=mesh, shared=shared, say=told
        )
        run = prepare(config, mesh=mesh, shared=shared, notes=said)
        state = initial_state(run)
        manifest = make_manifest(run, state)
        if has_saved(workdir):
            check_unchanged(workdir, manifest, run.source)
        finished(run.config)  # refuses what is now chosen, if it was otherwise before
        if chief:
            clear_unfinished(workdir)
        if pretrained:
            pretrained = pretrained_folder(run, manifest, pretrained)
        with _opened(run, state, workdir, chief, label, pretrained) as opened:
            progress, checkpoints, observer = opened
            if chief:
                for line in _write_start(run, manifest, workdir):
                    observer.say(line)
            save = lambda: checkpoints.save(
                progress.number, progress.state, progress.record()
            )
            try:
                announce(run, progress, observer)
                _train(run, progress, observer, save, pretrained)
                ended = _found(run, progress)
                result = make_result(run, progress, ended)
            except KeyboardInterrupt:
                _stop(progress, observer, save, start_over)
                raise
        if chief:
            write_end(run, workdir, progress.state, result, ended)
    return records.parse(Result, records.plain(result), str(workdir))


def _train(
    run: Run,
    progress: Progress,
    observer: Observer,
    save: Callable[[], None],
    pretrained: pathlib.Path | None,
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
        if pretrained:
            leave_pretrained(run, pretrained, progress)


def _stop(
    progress: Progress, observer: Observer, save: Callable[[], None], start_over: bool
) -> None:
    """Saves what there is, before its time."""
    again = "the same command" + " without --start_over" * start_over
    if progress.can_be_saved():
        save()
        observer.say(f"saved at step {progress.step}; {again} goes on there")
    else:
        observer.say(f"{again} goes on from the newest checkpoint")


def _finish_epoch(
    run: Run, progress: Progress, observer: Observer, clock: float, start: float
) -> None:
    """Refresh if due, evaluate if due, and add an entry to the history.

    `clock` is the time when the last entry was added, `start` that of the first step.
    """
    schedule, state, epoch = run.schedule, progress.state, progress.epoch + 1
    trained = time.monotonic()
    imbalance, foreign, previous, measured = None, None, None, None
    scores: list[float | None] = [None, None]
    if schedule.refresh_due(epoch):
        previous = run.method.selection(state.method)
        state, imbalance, foreign = refresh(run, state, epoch)
    refreshed = time.monotonic()
    if schedule.evaluate_due(epoch):
        scores = [accuracy(run, w) for w in (state.ema, (state.params, state.stats))]
    evaluated = time.monotonic()
    labels = run.method.selection(state.method)
    if labels is not None:
        num_classes, num_outputs = run.splits.num_classes, run.num_outputs
        observer.pseudo_labels(progress.step, labels, num_outputs)
        measured = measure_labels(
            labels, run.hidden, num_classes, num_outputs - num_classes, previous
        )
    steps = schedule.steps_per_epoch
    entry = Entry(
        epoch=epoch,
        step=progress.step,
        metrics={name: total / steps for name, total in progress.sums.items()},
        accuracy=scores[0],
        accuracy_live=scores[1],
        labels=measured,
        imbalance=imbalance,
        foreign_share=foreign and foreign.share,
        train_seconds=trained - start,
        refresh_seconds=refreshed - trained,
        evaluate_seconds=evaluated - refreshed,
        epoch_seconds=time.monotonic() - clock,
    )
    progress.finish_epoch(state, entry)
    observer.epoch(entry)
    for when, line in concerns_of(run, progress):
        if when == epoch:
            observer.say(f"warning: {line}")


def _set_aside_together(workdir: pathlib.Path) -> None:
    """Of several processes the first does it, before any other looks."""
    if jax.process_index() == 0:
        set_run_aside(workdir)
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices("the earlier run is set aside")


def _write_start(run: Run, manifest: Manifest, workdir: pathlib.Path) -> list[str]:
    """What a run leaves at its start, once it is sure that it can go on here.

    Returns:
      What to tell the user of it.
    """
    forget_sums(workdir)
    files.write_json(workdir / files.CONFIG, run.config.to_dict())
    files.write_json(workdir / files.MANIFEST, manifest)
    if photos := file_digests(run.source):
        files.write_json(workdir / files.PHOTOS, photos)
    write_sums(workdir, files.LISTED)
    return files.write_skipped(workdir / files.SKIPPED, run.source.skipped)


@contextlib.contextmanager
def _opened(
    run: Run,
    state: TrainState,
    workdir: pathlib.Path,
    chief: bool,
    label: str,
    pretrained: pathlib.Path | None,
) -> Iterator[tuple[Progress, Checkpoints, Observer]]:
    """The run at its newest usable checkpoint, or at step 0, and what it writes to."""
    keep = run.config.train.keep_checkpoints
    with contextlib.closing(Checkpoints(workdir, keep=keep)) as checkpoints:
        checkpoint, complaints = checkpoints.restore(state)
        if not checkpoint and pretrained:
            checkpoint = find_pretrained(pretrained, state)
        progress = resume(checkpoint) if checkpoint else Progress(state)
        check_fits(progress, run.schedule, workdir)
        pace = Pace(run.schedule, uses_unlabeled=bool(run.method.views))
        with Observer(
            workdir,
            pace,
            progress.step,
            config=run.config.to_dict(),
            active=chief,
            label=label,
        ) as observer:
            for line in (*run.notes, *complaints):
                observer.say(line)
            yield progress, checkpoints, observer


def _found(run: Run, progress: Progress) -> Found | None:
    """What the last weights say; nothing if they are not finite."""
    return find(run, progress.state) if progress.diverged_step is None else None
