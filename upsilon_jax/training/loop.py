"""The host loop: Algorithm 1 from top to bottom, and the only file that knows time."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from jax.sharding import Mesh

from upsilon_jax.config import ConfigDict, of_seed, validate
from upsilon_jax.config.from_data import is_complete
from upsilon_jax.data.splits import digest
from upsilon_jax.inference import evaluate
from upsilon_jax.native import CACHE
from upsilon_jax.report.curves import save_curves
from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.compilation import enable_cache
from upsilon_jax.runtime.interrupts import Interrupted, Interrupts
from upsilon_jax.runtime.memory import keep_freed
from upsilon_jax.training import passes
from upsilon_jax.training.epoch import is_supervised, population, train_epoch
from upsilon_jax.training.lockstep import Stepper, make_stepper
from upsilon_jax.training.progress import Progress, Trainee
from upsilon_jax.training.setup import Run, initial_state, prepare
from upsilon_jax.types import PseudoLabels, TrainState
from upsilon_jax.workdir import results
from upsilon_jax.workdir.checkpoint import Checkpoints, locked, tree_digest
from upsilon_jax.workdir.observer import Observer


def train(
    config: ml_collections.ConfigDict,
    workdir: str | pathlib.Path,
    *,
    override_config: bool = False,
) -> dict:
    """Trains as the config says, or goes on where the workdir's checkpoint stands.

    Args:
      config: see `upsilon_jax/config/fields.py`.
      workdir: gets checkpoints, TensorBoard events, `result.json` and `curves.png`;
        with several seeds, each in a folder `seed_S` of its own.
      override_config: goes on although the stored config differs.

    Returns:
      The contents of `result.json`; with several seeds see `results.of_seeds`.

    Raises:
      ConfigError, WorkdirError, DataNotPrepared: one line for the user.
      Interrupted: a signal came; everything is saved.
    """
    validate(config)
    keep_freed()
    workdir, count = pathlib.Path(workdir), config.train.num_seeds
    if count == 1:
        (result,), _ = _train_team({workdir: config}, [None], override_config)
        return result
    seeds = range(config.seed, config.seed + count)
    folders = {workdir / f"seed_{seed}": of_seed(config, seed) for seed in seeds}
    meshes = sharding.seed_meshes(count)
    teams = [folders] if meshes else [dict([item]) for item in folders.items()]
    found, sibling = [], None
    for team in teams:
        of_team, sibling = _train_team(
            team, meshes or [None], override_config, sibling, labeled=True
        )
        found += of_team
    return results.of_seeds(found)


def _train_team(
    folders: Mapping[pathlib.Path, ConfigDict],
    meshes: Sequence[Mesh | None],
    override_config: bool,
    sibling: Run | None = None,
    *,
    labeled: bool = False,
) -> tuple[list[dict], Run | None]:
    """Trains runs that differ in their seed, side by side if they are several.

    Args:
      folders: workdir -> config.
      meshes: the devices of each; None for all.
      override_config: as in `train`.
      sibling: a run with another seed, whose data and programs are used again.
      labeled: whether what is shown names the seed.

    Returns:
      The results, and the last run that was trained, if any was.
    """
    # Of several processes the first alone writes; checkpoints are orbax's business.
    chief = jax.process_index() == 0
    done, runs = {}, {}
    with contextlib.ExitStack() as locks:
        for (workdir, config), mesh in zip(folders.items(), meshes, strict=True):
            workdir.mkdir(parents=True, exist_ok=True)
            if chief:
                locks.enter_context(locked(workdir))
            found = _find_or_prepare(config, workdir, mesh, sibling, override_config)
            if isinstance(found, Run):
                runs[workdir] = sibling = found
            else:
                done[workdir] = found
        with Interrupts() as interrupts, contextlib.ExitStack() as opened:
            label = lambda run: f"seed {run.config.seed}" if labeled else ""
            team = {
                workdir: opened.enter_context(
                    _open(run, workdir, interrupts, chief, label(run))
                )
                for workdir, run in runs.items()
            }
            _train(list(team.values()), interrupts)
            done |= {
                workdir: results.plain(_result(trainee, interrupts))
                for workdir, trainee in team.items()
            }
        for workdir in team if chief else ():
            results.write(workdir / "result.json", done[workdir])
            save_curves(done[workdir], workdir / "curves.png")
    return [done[workdir] for workdir in folders], sibling


def _find_or_prepare(
    config: ConfigDict,
    workdir: pathlib.Path,
    mesh: Mesh | None,
    sibling: Run | None,
    override_config: bool,
) -> dict | Run:
    """The result if the workdir has it already, else what is needed to get it."""
    known = lambda config: results.find(
        workdir, config.to_dict(), override=override_config
    )
    if is_complete(config) and (result := known(config)):
        return result
    # The second start then takes seconds.
    if not jax.config.jax_compilation_cache_dir:  # unless the user has chosen one
        enable_cache(CACHE)
    run = prepare(config, mesh=mesh, sibling=sibling)
    # What was left open is now chosen from the data.
    return known(run.config) or run


@contextlib.contextmanager
def _open(
    run: Run, workdir: pathlib.Path, interrupts: Interrupts, chief: bool, label: str
) -> Iterator[Trainee]:
    """A run at its newest usable checkpoint, or at step 0; closes what it opens."""
    skipped = []
    if chief:
        results.write(workdir / "config.json", run.config.to_dict())
        skipped = results.write_skipped(workdir / "skipped.txt", run.source.skipped)
    keep = run.config.train.keep_checkpoints
    with contextlib.closing(Checkpoints(workdir, keep=keep)) as checkpoints:
        progress, complaints = _start(run, checkpoints, interrupts)
        with Observer(
            workdir, run.schedule.total_steps, progress.step, active=chief, label=label
        ) as observer:
            for line in (*run.notes, *skipped, *complaints):
                observer.say(line)
            yield Trainee(run, progress, checkpoints, observer)


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


def _train(team: Sequence[Trainee], interrupts: Interrupts) -> None:
    """Runs to the end.

    The order is fixed: refresh → evaluate → save → next batch → step → log. `step` and
    the length of the history tell what comes next, so a run goes on wherever it was cut
    off.
    """
    steppers: dict[tuple, Stepper] = {}
    try:
        while active := [trainee for trainee in team if trainee.active]:
            for squad, populations in _squads(active):
                clock = time.monotonic()
                supervised = is_supervised(populations[0])
                name = (*(id(trainee) for trainee in squad), supervised)
                if name not in steppers:
                    runs = [trainee.run for trainee in squad]
                    steppers[name] = make_stepper(runs, supervised=supervised)
                train_epoch(squad, populations, steppers[name], interrupts)
                seconds = time.monotonic() - clock
                for trainee in squad:
                    if trainee.active and trainee.epoch_is_over:
                        _finish_epoch(trainee, interrupts, seconds)
    except Interrupted:
        for trainee in filter(lambda trainee: trainee.active, team):
            trainee.save()
            trainee.observer.say(
                f"saved at step {trainee.progress.step}; the same command goes on there"
            )
        raise


def _squads(
    active: Sequence[Trainee],
) -> list[tuple[Sequence[Trainee], list[np.ndarray | None]]]:
    """Who takes the next steps together, each with its images to draw from.

    Everybody, unless some stand behind (they were killed before they could save), or
    some have no pseudo-label and so need the other program.
    """
    behind = min(trainee.progress.number for trainee in active)
    active = [trainee for trainee in active if trainee.progress.number == behind]
    populations = [population(trainee) for trainee in active]
    if len(set(map(is_supervised, populations))) == 1:
        return [(active, populations)]
    return [([t], [p]) for t, p in zip(active, populations, strict=True)]


def _finish_epoch(
    trainee: Trainee, interrupts: Interrupts, train_seconds: float
) -> None:
    """Refresh if due, evaluate, add an entry to the history, save if due."""
    run, progress, observer = trainee.run, trainee.progress, trainee.observer
    epoch, clock = len(progress.history) + 1, time.monotonic()
    state, found = progress.state, {}
    if run.schedule.refresh_due(epoch):
        state, found = passes.refresh(run, state, epoch, interrupts.check)
        found["refresh_seconds"] = time.monotonic() - clock
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
        "epoch_seconds": train_seconds + time.monotonic() - clock,
    }
    # All at once: an interruption above leaves the epoch as it was.
    progress.state, progress.sums = state, {}
    progress.history.append(entry)
    observer.epoch(progress.step, entry)
    if run.schedule.save_due(epoch):
        trainee.save()


def _result(trainee: Trainee, interrupts: Interrupts) -> dict[str, Any]:
    """The contents of `result.json`."""
    run, progress = trainee.run, trainee.progress
    state: TrainState = progress.state
    last = progress.history[-run.config.train.report_epochs :]
    mean = lambda key: float(np.mean([entry[key] for entry in last])) if last else None
    if trainee.diverged_step is None:
        outcome = {"status": "finished"}
        found = passes.final_measures(run, state.ema, interrupts.check)
    else:
        outcome = {"status": "diverged", "diverged_step": trainee.diverged_step}
        found = {}
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
