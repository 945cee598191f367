"""Reads the results below a folder: `result.json` files, and summaries of them.

A summary is a `result.json` without its bulky parts, small enough to be committed, with
what its figures need of the files beside it. It is read like any other result.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterable

import numpy as np

from upsilon_jax.errors import UserError
from upsilon_jax.report.open_set import measure_open_set
from upsilon_jax.report.runs import Run, as_run, as_runs
from upsilon_jax.workdir import findings
from upsilon_jax.workdir.files import FINDINGS, MANIFEST, RESULT
from upsilon_jax.workdir.records import plain, read
from upsilon_jax.workdir.saved import files_below
from upsilon_jax.workdir.schema import Manifest, OpenSet, Result
from upsilon_jax.workdir.whole import make_folder, written_whole

# cifar10-upsilon-m100-s0-0f3a21bc.json
_SUMMARY = re.compile(r".+-s\d+-[0-9a-f]{8}\.json")
# What no table or figure asks of an epoch.
_NOT_KEPT = ("evaluate_seconds", "epoch_seconds")


def read_runs(folder: pathlib.Path, *, may_be_empty: bool = False) -> list[Run]:
    """Every run below a folder, in an order that does not depend on file names.

    A summary whose `result.json` is there too counts once, and a run that
    `--start_over` has set aside not at all.

    Raises:
      UserError: there is no such folder, nothing in it (unless `may_be_empty`), or the
        same run twice.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    found = files_below(folder, "*.json")
    results = {path: _read(path) for path in found if path.name == RESULT}
    whole = {_identity(path, result) for path, result in results.items()}
    for path in found:
        if _SUMMARY.fullmatch(path.name):
            summary = read(Result, path)
            if _identity(path, summary) not in whole:
                results[path] = summary
    if not results and not may_be_empty:
        raise UserError(f"{folder}: no result.json found")
    return sorted(as_runs(results.items()), key=_order)


def _order(run: Run) -> tuple:
    unknown_first = -1.0 if run.mismatch is None else run.mismatch
    fields = repr(run.setting), run.method, repr(run.variant)
    return run.data, *fields, unknown_first, run.result.seed


def _identity(path: pathlib.Path, result: Result) -> tuple[str, int, str]:
    """The same of a result and its summary."""
    return as_run(path, result).fingerprint, result.seed, result.params_digest


def _read(path: pathlib.Path) -> Result:
    """A result, with what the manifest beside it says of the data."""
    result, manifest = read(Result, path), path.with_name(MANIFEST)
    if result.data_digest is None and manifest.exists():
        result = result._replace(data_digest=read(Manifest, manifest).data_digest)
    return result


def findings_of(run: Run) -> findings.Findings | None:
    """What a run found, if `findings.npz` lies beside its result."""
    path = run.path.with_name(FINDINGS)
    if run.path.name != RESULT or not path.exists():
        return None
    return findings.load(path)


def unlabeled_confusion(run: Run) -> np.ndarray | None:
    """[classes, ID classes] counts of D_u: true by most probable ID class.

    None where the truth or the findings of the run are not known.
    """
    if run.result.unlabeled_confusion is not None:
        return np.array(run.result.unlabeled_confusion)
    found = findings_of(run)
    if found is None or not run.result.confusion:
        return None
    truth, label = found.unlabeled.truth, found.unlabeled.label
    known = truth >= 0
    counts = np.zeros(np.shape(run.result.confusion), int)
    np.add.at(counts, (truth[known], label[known]), 1)
    return counts if known.any() else None


def open_set_of(run: Run) -> OpenSet | None:
    """What others measure; of a run that has it not, from what lies beside its result.

    None where neither is there.
    """
    if run.result.open_set is not None:
        return run.result.open_set
    found, manifest = findings_of(run), run.path.with_name(MANIFEST)
    if found is None or not manifest.exists():
        return None
    told = read(Manifest, manifest)
    return measure_open_set(found.test, told.num_classes, told.foreign_below)


def write_summaries(runs: Iterable[Run], folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes a small JSON file for each run, NAME-METHOD-mM-sS-FINGERPRINT.json.

    The fingerprint is of all settings, so that runs that differ in any have files of
    their own, and the same run always has the same one.
    """
    make_folder(folder)
    return [_write_summary(run, folder) for run in runs]


def _write_summary(run: Run, folder: pathlib.Path) -> pathlib.Path:
    parts = [run.result.config["data"]["name"], run.method]
    if run.mismatch is not None:
        parts.append(f"m{100 * run.mismatch:g}")
    name = "-".join([*parts, f"s{run.result.seed}", run.fingerprint])
    path = folder / f"{name}.json"
    text = "".join(_lines(_summary(run)))
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def _summary(run: Run) -> dict:
    counts = unlabeled_confusion(run)
    result = run.result._replace(
        open_set=open_set_of(run),
        unlabeled_confusion=None if counts is None else counts.tolist(),
        history=[entry._replace(metrics={}) for entry in run.result.history],
    )
    kept = plain(result)
    kept["config"]["data"].pop("data_dir", None)  # of no use anywhere else
    for entry in kept["history"]:
        for name in _NOT_KEPT:
            entry.pop(name, None)
    return kept


def _lines(summary: dict) -> Iterable[str]:
    """JSON with a line for each field and each epoch: short, and easy to compare."""
    say = lambda value: json.dumps(value, allow_nan=False, ensure_ascii=False)
    fields = [f' "{name}": {say(value)}' for name, value in summary.items()]
    at = list(summary).index("history")
    entries = ",\n".join(f"  {say(entry)}" for entry in summary["history"])
    fields[at] = f' "history": [\n{entries}\n ]' if entries else ' "history": []'
    return ["{\n", ",\n".join(fields), "\n}\n"]
