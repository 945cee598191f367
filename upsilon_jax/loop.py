"""The host loop: Algorithm 1 from top to bottom, and the only file that knows time."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
from typing import Any

import jax
import ml_collections
import numpy as np

from upsilon_jax import evaluate, passes, results, sharding
from upsilon_jax.checkpoint import Checkpoints, locked, tree_digest
from upsilon_jax.compilation import enable_cache
from upsilon_jax.config import validate
from upsilon_jax.data.splits import digest
from upsilon_jax.data.streams import Pipeline
from upsilon_jax.interrupts import Interrupted, Interrupts
from upsilon_jax.observer import Observer
from upsilon_jax.report.curves import save_curves
from upsilon_jax.run import TRAIN_KEY, Run, initial_state, is_complete, prepare
from upsilon_jax.types import PseudoLabels, TrainState

# Compiled programs are kept between runs: the second start takes seconds.
CACHE = pathlib.Path("~/.cache/upsilon_jax/compiled").expanduser()


@dataclasses.dataclass
class Progress:
    """Where a run stands. Its checkpoint is `state` and, as JSON, the rest."""

    state: TrainState
    step: int = 0
    history: list[dict] = dataclasses.field(default_factory=list)
    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    resumed_from: list[int] = dataclasses.field(default_factory=list)

    @property
    def number(self) -> int:
        """The number of its checkpoint.

        At the end of an epoch there may be two with the same step: before and after
        the evaluation.
        """
        return self.step + len(self.history)

    def record(self) -> dict:
        """What a checkpoint keeps beside the arrays."""
        kept = ("step", "history", "sums", "resumed_from")
        return {name: getattr(self, name) for name in kept}


class Diverged(Exception):
    """The loss is no longer a number."""

    def __init__(self, step: int):
        super().__init__(f"the loss is not finite at step {step}")
        self.step = step


def train(
    config: ml_collections.ConfigDict,
    workdir: str | pathlib.Path,
    *,
    override_config: bool = False,
) -> dict:
    """Trains as the config says, or goes on where the workdir's checkpoint stands.

    Args:
      config: see `configs/base.py`.
      workdir: gets checkpoints, TensorBoard events, `result.json` and `curves.png`.
      override_config: goes on although the stored config differs.

    Returns:
      The contents of `result.json`.

    Raises:
      ConfigError, WorkdirError, DataNotPrepared: one line for the user.
      Interrupted: a signal came; everything is saved.
    """
    validate(config)
    workdir = pathlib.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    known = lambda config: results.find(
        workdir, config.to_dict(), override=override_config
    )
    # Of several processes the first alone writes; checkpoints are orbax's business.
    chief = jax.process_index() == 0
    with locked(workdir) if chief else contextlib.nullcontext():
        if is_complete(config) and (result := known(config)):
            return result
        if not jax.config.jax_compilation_cache_dir:  # unless the user has chosen one
            enable_cache(CACHE)
        run = prepare(config)
        config = run.config  # what was left open is now chosen from the data
        if result := known(config):
            return result
        skipped = []
        if chief:
            results.write(workdir / "config.json", config.to_dict())
            skipped = results.write_skipped(workdir / "skipped.txt", run.source.skipped)
        with (
            Interrupts() as interrupts,
            contextlib.closing(
                Checkpoints(workdir, keep=config.train.keep_checkpoints)
            ) as checkpoints,
        ):
            progress, complaints = _start(run, checkpoints, interrupts)
            with Observer(
                workdir, run.schedule.total_steps, progress.step, active=chief
            ) as observer:
                for line in (*run.notes, *skipped, *complaints):
                    observer.say(line)
                outcome = _train(run, progress, checkpoints, observer, interrupts)
            result = results.plain(_result(run, progress, outcome, interrupts))
        if chief:
            results.write(workdir / "result.json", result)
            save_curves(result, workdir / "curves.png")
        return result


def _start(
    run: Run, checkpoints: Checkpoints, interrupts: Interrupts
) -> tuple[Progress, list[str]]:
    """The newest usable checkpoint, or step 0 with its first refresh."""
    state = initial_state(run)
    checkpoint, complaints = checkpoints.restore(state)
    if checkpoint is None:
        progress = Progress(state)
        if run.schedule.refresh_due(0):
            progress.state, _ = passes.refresh(run, state, 0, interrupts.check)
        return progress, complaints
    progress = Progress(checkpoint.state, **checkpoint.record)
    progress.resumed_from = [*progress.resumed_from, progress.step]
    return progress, complaints


def _train(
    run: Run,
    progress: Progress,
    checkpoints: Checkpoints,
    observer: Observer,
    interrupts: Interrupts,
) -> dict:
    """Runs to the end; how it ended, as fields of the result."""
    saved = progress.number if progress.resumed_from else None
    save = lambda: checkpoints.save(progress.number, progress.state, progress.record())
    try:
        # The order is fixed: refresh → evaluate → save → next batch → step → log.
        # `step` and the length of the history tell what comes next, so a run goes on
        # wherever it was cut off.
        while len(progress.history) < run.schedule.epochs:
            clock = time.monotonic()
            _train_epoch(run, progress, observer, interrupts)
            _finish_epoch(run, progress, observer, interrupts, clock)
            if run.schedule.save_due(len(progress.history)):
                save()
                saved = progress.number
    except Interrupted:
        if saved != progress.number:
            save()
        observer.say(f"saved at step {progress.step}; the same command goes on there")
        raise
    except Diverged as diverged:
        observer.say(f"diverged: {diverged}")
        return {"status": "diverged", "diverged_step": diverged.step}
    return {"status": "finished"}


def _train_epoch(
    run: Run, progress: Progress, observer: Observer, interrupts: Interrupts
) -> None:
    """The steps of the current epoch that are still to be taken."""
    epoch = len(progress.history)
    start = progress.step - epoch * run.schedule.steps_per_epoch
    population = _population(run, progress.state, epoch)
    supervised = population is not None and not len(population)
    step_fn = run.programs.supervised if supervised else run.programs.semi_supervised
    key = jax.random.fold_in(run.key, TRAIN_KEY)
    pending: list[dict] = []
    with _pipeline(run, epoch, start, population) as pipeline:
        for host_batch in pipeline:
            if interrupts.pending:  # what is not in the sums is lost for the history
                _log(progress, pending, observer)
                interrupts.check()
            batch = run.feed.batch(host_batch)
            progress.state, metrics = step_fn(progress.state, batch, key)
            progress.step += 1
            pending.append(metrics)
            last = progress.step == (epoch + 1) * run.schedule.steps_per_epoch
            if last or progress.step % run.config.train.log_steps == 0:
                _log(progress, pending, observer)


def _population(run: Run, state: TrainState, epoch: int) -> np.ndarray | None:
    """Positions in D_u to draw from: None for all, empty for a supervised epoch."""
    if not run.method.views or epoch < run.schedule.pretrain_epochs:
        return np.empty(0, np.int64)
    if not isinstance(state.method, PseudoLabels):
        return None
    selected = np.flatnonzero(np.asarray(state.method.weight) > 0)
    masked = run.config.data.pseudo_batches == "masked"
    return None if masked and len(selected) else selected


def _pipeline(
    run: Run, epoch: int, start: int, population: np.ndarray | None
) -> Pipeline:
    """Built anew for every epoch, so it always runs over the current D_l ∪ P."""
    batch_size = run.config.train.batch_size
    supervised = population is not None and not len(population)
    return Pipeline(
        run.splits.labeled,
        run.train_classes[run.splits.labeled],
        run.splits.unlabeled,
        batch_size=batch_size,
        unlabeled_batch_size=0 if supervised else batch_size,
        epoch=epoch,
        steps_per_epoch=run.schedule.steps_per_epoch,
        seed=run.config.seed,
        start=start,
        population=population,
        read=run.feed.read,
        shard=sharding.own_share(),
        image_shape=run.source.image_shape,
        prefetch_bytes=run.config.data.prefetch_bytes,
    )


def _log(progress: Progress, pending: list[dict], observer: Observer) -> None:
    """Fetches what the device has reported since the last time: the only wait."""
    fetched = jax.device_get(pending)
    if not fetched:
        return
    for offset, metrics in enumerate(fetched):
        if not np.isfinite(metrics["loss"]):
            raise Diverged(progress.step - len(fetched) + offset + 1)
        for name, value in metrics.items():
            progress.sums[name] = progress.sums.get(name, 0.0) + float(value)
    pending.clear()
    observer.steps(progress.step, {k: float(v) for k, v in fetched[-1].items()})


def _finish_epoch(
    run: Run,
    progress: Progress,
    observer: Observer,
    interrupts: Interrupts,
    clock: float,
) -> None:
    """Refresh if due, evaluate, and add an entry to the history."""
    epoch = len(progress.history) + 1
    train_seconds = time.monotonic() - clock
    state, found = progress.state, {}
    if run.schedule.refresh_due(epoch):
        state, found = passes.refresh(run, state, epoch, interrupts.check)
        found["refresh_seconds"] = time.monotonic() - clock - train_seconds
    if isinstance(state.method, PseudoLabels):
        found |= evaluate.describe_pseudo_labels(
            state.method, run.hidden, run.num_classes
        )
        observer.pseudo_labels(
            progress.step, state.method, run.method.heads["logits"].size
        )
    entry = {
        "epoch": epoch,
        "step": progress.step,
        **{k: v / run.schedule.steps_per_epoch for k, v in progress.sums.items()},
        "accuracy": passes.accuracy(run, state.ema, interrupts.check),
        "accuracy_live": passes.accuracy(
            run, (state.params, state.stats), interrupts.check
        ),
        **found,
        "train_seconds": train_seconds,
        "epoch_seconds": time.monotonic() - clock,
    }
    # All at once: an interruption above leaves the epoch as it was.
    progress.state, progress.sums = state, {}
    progress.history.append(entry)
    observer.epoch(progress.step, entry)


def _result(
    run: Run, progress: Progress, outcome: dict, interrupts: Interrupts
) -> dict[str, Any]:
    """The contents of `result.json`."""
    state = progress.state
    last = progress.history[-run.config.train.report_epochs :]
    mean = lambda key: float(np.mean([entry[key] for entry in last])) if last else None
    found = {}
    if outcome["status"] == "finished":
        found = passes.final_measures(run, state.ema, interrupts.check)
    return {
        "config": run.config.to_dict(),
        "versions": results.versions(),
        "seed": run.config.seed,
        "split_digest": digest(run.splits),
        "classes": run.splits.classes,
        **outcome,
        "accuracy": mean("accuracy"),
        "accuracy_live": mean("accuracy_live"),
        **found,
        "params_digest": tree_digest((state.params, state.stats, state.ema, state.opt)),
        "resumed_from": progress.resumed_from,
        "history": progress.history,
    }
