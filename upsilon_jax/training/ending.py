"""What a run leaves at its end: its result, and the files that are made of it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from upsilon_jax import native
from upsilon_jax.data.splits import digest
from upsilon_jax.report.page.run_files import RunFiles
from upsilon_jax.report.page.workdir_files import write_all
from upsilon_jax.runtime import interrupts
from upsilon_jax.training.concerns import concerns
from upsilon_jax.training.findings import Found, final_measures, with_thumbnails
from upsilon_jax.training.manifest import foreign_below
from upsilon_jax.training.progress import Progress
from upsilon_jax.training.setup import Run
from upsilon_jax.types import TrainState
from upsilon_jax.workdir import files, findings, records, schema
from upsilon_jax.workdir.schema import Manifest, Result
from upsilon_jax.workdir.seal import tree_digest
from upsilon_jax.workdir.sums import forget_sums, write_sums
from upsilon_jax.workdir.whole import remove


def make_result(run: Run, progress: Progress, found: Found | None) -> Result:
    """The contents of `result.json`."""
    state = progress.state
    last = progress.history[-run.config.train.report_epochs :]
    if found:
        below = foreign_below(run, state, found.foreign)
        measured = final_measures(run, found, below)
    else:
        measured = dict.fromkeys(("confusion", "auroc", "imbalance"))
    return Result(
        format=schema.FORMAT,
        status=schema.FINISHED if found else schema.DIVERGED,
        seed=run.config.seed,
        config=run.config.to_dict(),
        classes=list(run.splits.classes),
        accuracy=_mean([entry.accuracy for entry in last]),
        accuracy_live=_mean([entry.accuracy_live for entry in last]),
        **measured,
        diverged_step=progress.diverged_step,
        resumed_from=progress.resumed_from,
        split_digest=digest(run.splits),
        params_digest=tree_digest((state.params, state.stats, state.ema, state.opt)),
        native=native.in_use(),
        versions=files.versions(),
        history=progress.history,
        accuracy_last=last[-1].accuracy if last else None,
        warnings=[line for _, line in concerns_of(run, progress)],
    )


def write_end(
    run: Run,
    workdir: pathlib.Path,
    state: TrainState,
    result: Result,
    found: Found | None,
) -> None:
    """Writes what a run leaves at its end; `result.json` last, for it says it is all.

    Whatever of it a killed run did not write, the same command writes. A signal is
    answered between two files.
    """
    # Only now is it known for sure whether C++ code ran, and what is foreign.
    manifest = records.read(Manifest, workdir / files.MANIFEST)
    manifest = manifest._replace(
        native=result.native, foreign_below=foreign_below(run, state, result.foreign)
    )
    forget_sums(workdir)
    files.write_json(workdir / files.MANIFEST, manifest)
    interrupts.check()
    shown = found and with_thumbnails(run, found.findings, manifest)
    if shown:
        findings.save(workdir / files.FINDINGS, shown)
    else:  # what is there is of an earlier config
        for name in (files.FINDINGS, files.UNLABELED, files.LABEL_NEXT):
            remove(workdir / name)
    interrupts.check()
    write_all(RunFiles(workdir, result, manifest, shown))
    interrupts.check()
    to_come = {files.RESULT: files.json_bytes(result)}
    remove(workdir / files.RESULT)  # one of an earlier config
    write_sums(workdir, files.LISTED, to_come)
    files.write_json(workdir / files.RESULT, result)


def _mean(values: Sequence[float | None]) -> float | None:
    """Of those that were measured; None if none was, before an early divergence."""
    measured = [value for value in values if value is not None]
    return float(np.mean(measured)) if measured else None


def concerns_of(run: Run, progress: Progress) -> list[tuple[int, str]]:
    """See `concerns`, of a run as it stands."""
    num_unlabeled = len(run.splits.unlabeled)
    return concerns(progress.history, run.config, run.schedule, num_unlabeled)
