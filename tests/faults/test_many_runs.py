"""Many runs: a folder that cannot be theirs is one line, at the start and in a run."""

import importlib.util
import os
import sys

import pytest

from tests.faults.test_workdir import a_file, below_a_file, full_disk, said, too_long
from tests.training.tiny_run import baseline
from tests.workdir.test_schema import make_result
from upsilon_jax.config import find_config
from upsilon_jax.errors import UserError
from upsilon_jax.paper import __main__ as paper
from upsilon_jax.sweep import __main__ as sweep
from upsilon_jax.sweep import slurm
from upsilon_jax.sweep.workers import LOG, REFUSED, Task, _outcome
from upsilon_jax.training import seeds
from upsilon_jax.workdir.records import plain
from upsilon_jax.workdir.schema import FINISHED

MANY_RUNS = {
    "sweep": (sweep, ()),
    "slurm": (sweep, ("--launcher=slurm",)),
    "paper": (paper, ("E8",)),
}


@pytest.mark.parametrize("command", MANY_RUNS)
@pytest.mark.parametrize("make", [a_file, below_a_file, too_long])
def test_a_folder_of_runs_that_cannot_be_one_is_one_line(
    tmp_path, capsys, make, command
):
    root, why = make(tmp_path)
    command, told = MANY_RUNS[command]
    line = said(capsys, f"--workdir={root}", *told, command=command)
    assert f"cannot be a folder ({why})" in line and len(line) < 400


@pytest.mark.parametrize("command", MANY_RUNS)
def test_many_runs_do_not_begin_on_a_full_disk(tmp_path, capsys, command):
    command, told = MANY_RUNS[command]
    with full_disk():
        line = said(capsys, f"--workdir={tmp_path / 'runs'}", *told, command=command)
    assert line.endswith("runs: cannot be written to (File too large)")
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("make", [a_file, below_a_file, too_long])
def test_a_run_of_a_sweep_without_a_folder_is_refused_alone(tmp_path, make):
    workdir, why = make(tmp_path)
    outcome = _outcome(Task("a run", baseline(), workdir, tmp_path))
    assert (outcome.name, outcome.status) == ("a run", REFUSED)
    assert outcome.message.endswith(f"cannot be written ({why})")


def test_a_run_of_a_sweep_whose_log_finds_no_room_is_refused_alone(
    tmp_path, monkeypatch
):
    def train(*_, **__):
        os.write(2, b"what is shown")

    monkeypatch.setattr(seeds, "train", train)
    kept = os.fstat(2)
    with full_disk():
        outcome = _outcome(Task("a run", baseline(), tmp_path, tmp_path))
    assert outcome.status == REFUSED
    assert outcome.message == f"{tmp_path / LOG}: cannot be written (File too large)"
    assert os.path.samestat(os.fstat(2), kept)


def test_a_run_of_a_sweep_counts_although_its_last_words_find_no_room(
    tmp_path, monkeypatch
):
    def train(*_, **__):
        monkeypatch.setattr(sys, "stdout", os.fdopen(os.dup(1), "w"))
        sys.stdout.write("not written until it is flushed")
        return plain(make_result())

    monkeypatch.setattr(seeds, "train", train)
    kept = os.fstat(1)
    with full_disk():
        outcome = _outcome(Task("a run", baseline(), tmp_path, tmp_path))
    sys.stdout.close()
    assert outcome.status == FINISHED
    assert os.path.samestat(os.fstat(1), kept)


def test_a_job_array_that_cannot_be_kept_is_one_line(tmp_path, monkeypatch):
    if not importlib.util.find_spec("submitit"):
        pytest.skip("submitit is not installed")
    monkeypatch.setattr(slurm, "_check_installed", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    (tmp_path / slurm.FOLDER).write_text("")
    with pytest.raises(UserError, match=r"\.slurm: cannot be written to \(.*exists\)$"):
        slurm.submit({"run": baseline()}, find_config("digits"), tmp_path, {})
