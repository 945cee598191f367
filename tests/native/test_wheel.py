"""A wheel has the files that are no Python, but no library for one processor only."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def test_sources_style_and_script_but_no_library(tmp_path):
    pytest.importorskip("setuptools")
    copy = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "upsilon_jax", copy / "upsilon_jax", ignore=ignore)
    shutil.copytree(ROOT / "configs", copy / "configs", ignore=ignore)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    here = copy / "upsilon_jax" / "native"
    for name in ("rows-0123.so", "rows.dylib", "rows.dll", "rows.o"):
        (here / name).touch()
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", tmp_path / "lib"],
        cwd=copy,
        check=True,
        capture_output=True,
    )
    found = (tmp_path / "lib" / "upsilon_jax" / "native").iterdir()
    assert {path.suffix for path in found} == {".py", ".cc", ".h"}
    page = tmp_path / "lib" / "upsilon_jax" / "report" / "page"
    assert (page / "page.css").exists() and (page / "page.js").exists()
