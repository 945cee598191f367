"""Every notebook runs from top to bottom, and stays a notebook: import, call, plot."""

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
    assert NOTEBOOKS


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
