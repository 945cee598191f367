"""What `main.py` does in its other modes: a run is read, and not trained.

`report` makes anew what the run shows to people, and the checksums; no mode changes
what the run wrote down.

Each function takes what the flags of the same names say, and returns what to tell the
person.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from upsilon_jax.errors import ConfigError, WorkdirError
from upsilon_jax.inference.model import Model, load
from upsilon_jax.runtime import interrupts, sharding
from upsilon_jax.workdir.files import REPORT, write_json, write_skipped
from upsilon_jax.workdir.place import local_path
from upsilon_jax.workdir.whole import check_place, remove

Value = TypeVar("Value")


def predict(workdir: pathlib.Path, images: Sequence[str], output: str | None) -> str:
    """Writes `predictions.csv` of files and folders, into the run unless told where."""
    from upsilon_jax.inference import predictions

    _need("images", images, "a folder, an image or a .npz file with an array x")
    model, notes = _open(workdir)
    path = _place(output, workdir, predictions.PREDICTIONS)
    predicted = predictions.predict_paths(model, images)
    foreign_below = model.manifest.foreign_below
    predictions.write_predictions(path, predicted, foreign_below)
    lines = predictions.counted(predicted, foreign_below)
    listed = path.with_suffix(".skipped.txt")
    remove(listed)  # of an earlier prediction
    left_out = write_skipped(listed, predicted.skipped)
    return "\n".join([*notes, *lines, *left_out, f"written to {path}"])


def evaluate(workdir: pathlib.Path, images: Sequence[str], output: str | None) -> str:
    """Measures the model on folders with one sub-folder a class."""
    from upsilon_jax.inference import evaluate as evaluation

    _need("images", images, "a folder with one sub-folder a class")
    model, notes = _open(workdir)
    path = _place(output, workdir, "") if output else None
    skipped: list[tuple[str, str]] = []
    found = evaluation.evaluate(model, images, skipped, show=True)
    lines = [*notes, evaluation.text_of(found)]
    if skipped:
        lines.append(f"\nfiles left out: {len(skipped):,}, as {': '.join(skipped[0])}")
    if path:
        write_json(path, found)
        lines.append(f"written to {path}")
    return "\n".join(lines)


def export(workdir: pathlib.Path, images: Sequence[str], output: str | None) -> str:
    """Writes the model as one file."""
    from upsilon_jax.inference import export as exporting
    from upsilon_jax.inference.saved import read_saved

    del images
    if workdir.is_file():
        raise WorkdirError(f"{workdir}: is a file; --mode=export takes the run itself")
    path = _place(output, workdir, exporting.EXPORT)
    saved = read_saved(workdir, sharding.data_mesh())
    exporting.write_export(path, saved)
    size = path.stat().st_size / 1e6
    return "\n".join([*saved.notes, f"{size:.1f} MB written to {path}"])


def report(workdir: pathlib.Path, images: Sequence[str], output: str | None) -> str:
    """Makes again what a run shows to people, from what is in the workdir."""
    from upsilon_jax.report.page.workdir_files import remake

    del images, output
    remake(workdir)
    return f"written to {workdir / REPORT}"


MODES: dict[str, Callable[[pathlib.Path, Sequence[str], str | None], str]] = {
    "evaluate": evaluate,
    "predict": predict,
    "export": export,
    "report": report,
}


def run_mode(
    mode: str, workdir: str | None, images: Sequence[str], output: str | None
) -> str:
    """Runs a mode with what its flags say; Ctrl-C ends it without a trace."""
    folder = local_path(_need("workdir", workdir, "the folder of a run"))
    with interrupts.listening():
        return MODES[mode](folder, images, output)


def _need(flag: str, value: Value | None, what: str) -> Value:
    if not value:
        raise ConfigError(f"--{flag}=... is missing: {what}")
    return value


def _open(workdir: pathlib.Path) -> tuple[Model, tuple[str, ...]]:
    model = load(workdir)
    return model, model.notes


def _place(output: str | None, workdir: pathlib.Path, name: str) -> pathlib.Path:
    """Where to write; looked at before hours of work."""
    beside = workdir if workdir.is_dir() else workdir.parent
    path = pathlib.Path(os.path.expanduser(output)) if output else beside / name
    check_place(path)
    return path
