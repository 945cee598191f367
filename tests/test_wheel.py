"""The package as someone installs it who has no checkout: built, installed, used."""

import csv
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from upsilon_jax.config import config_names

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = ("upsilon_jax", "configs", "setup.py", "pyproject.toml", "README.md")
SOURCES += ("LICENSE", "MANIFEST.in")
# A moment in a commit's life: archives have it instead of the time they are made.
ENVIRONMENT = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
SMALL = (
    "--config.train.epochs=2",
    "--config.train.pretrain_epochs=1",
    "--config.data.num_unlabeled=64",
    "--config.data.augmentation=none",
    "--config.model.width=1",
)


def build(folder, output):
    """Wheel and source archive of a copy of the sources."""
    folder.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    # The tools are those of this environment: nothing is downloaded.
    asked = ["-m", "build", "--no-isolation", "--outdir", str(output), str(folder)]
    run([sys.executable, *asked], folder.parent, ENVIRONMENT)
    return sorted(output.iterdir())


def run(command, folder, environment):
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    root = tmp_path_factory.mktemp("wheel")
    return build(root / "first", root / "made")


def test_archives_are_clean_and_the_same_again(archives, tmp_path):
    run([sys.executable, "-m", "twine", "check", "--strict", *archives], ROOT, None)
    again = build(tmp_path / "again", tmp_path / "made")
    assert [path.name for path in again] == [path.name for path in archives]
    wheels = [p.read_bytes() for p in (*archives, *again) if p.suffix == ".whl"]
    assert wheels[0] == wheels[1]


def test_the_wheel_has_all_that_is_read_at_run_time(archives):
    (wheel,) = (path for path in archives if path.suffix == ".whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"upsilon_jax/configs/{name}.py" for name in config_names()} <= names
    kept = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "upsilon_jax").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert kept <= names
    assert not any(name.startswith(("tests/", "configs/")) for name in names)


@pytest.fixture(scope="module")
def installed(archives, tmp_path_factory):
    """A new environment with the wheel, which borrows the dependencies of this one."""
    root = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", str(root)], ROOT, None)
    (wheel,) = (path for path in archives if path.suffix == ".whl")
    python = root / "bin" / "python"
    asked = ["pip", "--python", str(python), "install", "--no-deps", str(wheel)]
    run([sys.executable, "-m", *asked], ROOT, None)
    (packages,) = root.glob("lib/python*/site-packages")
    theirs = [
        path for path in sys.path if path.endswith(("site-packages", "dist-packages"))
    ]
    (packages / "borrowed.pth").write_text("\n".join(theirs))
    return root / "bin"


def test_it_trains_predicts_reports_and_sweeps_outside_of_a_checkout(
    installed, tmp_path
):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ask = lambda *command: run(command, tmp_path, environment)
    command, python = str(installed / "upsilon-jax"), str(installed / "python")
    place = ask(python, "-c", "import upsilon_jax; print(upsilon_jax.__file__)")
    assert place.startswith(str(installed.parent))

    trained = ask(command, "--config=digits:upsilon", *SMALL, "--workdir=run")
    assert "upsilon on digits: finished" in trained
    ask(python, "-c", IMAGES)
    ask(command, "--mode=predict", "--workdir=run", "--images=x.npz", "--output=p.csv")
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 5
    asked = ("--config=digits", "--methods=pl", "--seeds=0", "--jobs=1", *SMALL)
    ask(python, "-m", "upsilon_jax.sweep", *asked, "--workdir=runs")
    assert "| pl |" in ask(python, "-m", "upsilon_jax.report", "runs")
    again = ask(python, "-m", "upsilon_jax", "--workdir=run", *SMALL)
    assert "upsilon on digits: finished" in again


IMAGES = """
import numpy as np
np.savez("x.npz", x=np.zeros((5, 8, 8, 1), np.uint8))
"""
