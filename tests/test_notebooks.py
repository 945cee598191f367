"""Every notebook runs from top to bottom, and stays a notebook: import, call, plot."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_cells(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def test_there_are_notebooks():
    names = [path.stem.partition("_")[2] for path in NOTEBOOKS]
    assert names == ["kernels", "train_digits", "own_photos", "results"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_first_cell_installs_what_is_missing(path, monkeypatch):
    commands = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(
        subprocess, "run", lambda command, check: commands.append(command)
    )
    names = {}
    exec(code_cells(path)[0], names)
    [command] = commands
    assert command[-1] == names["SOURCE"] and "pip" in command
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "found")
    exec(code_cells(path)[0], names)
    assert len(commands) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_pictures_are_stored_and_every_cell_was_run_in_order(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert any("image/png" in output.get("data", ()) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_cells_are_short_and_define_nothing(path):
    for cell in code_cells(path):
        assert len(cell.splitlines()) <= 20
        assert "\ndef " not in f"\n{cell}" and "\nclass " not in f"\n{cell}"
        compile(cell, str(path), "exec")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(path, tmp_path):
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join(code_cells(path)), "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=path.parent,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
