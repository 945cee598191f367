"""main.py as a user meets it: a process, its exit code, and what it prints."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios
import time

import pytest

from tests.faults.processes import wait_for
from tests.training.tiny_run import without_seconds
from tests.workdir.test_schema import make_result
from upsilon_jax import command as main
from upsilon_jax import commandline
from upsilon_jax.workdir.records import plain

ROOT = pathlib.Path(__file__).parent.parent
SMALL = (
    "--config.train.epochs=4",
    "--config.train.pretrain_epochs=2",
    "--config.data.num_unlabeled=96",
    "--config.model.width=1",
    "--config.train.save_epochs=1",
    "--config.train.report_epochs=1",
)


def command(*args):
    return [sys.executable, str(ROOT / "main.py"), *args]


def run(*args, cwd=ROOT, **kwargs):
    return subprocess.run(
        command(*args), cwd=cwd, capture_output=True, text=True, timeout=300, **kwargs
    )


def test_a_short_run_from_another_directory(tmp_path):
    """A real process, the fastest that trains with pseudo-labels."""
    done = run(
        "--config.train.epochs=2",  # before the config that has it
        f"--config={ROOT / 'configs/digits.py'}:upsilon",
        "--config.train.pretrain_epochs=1",
        "--config.data.num_unlabeled=32",
        "--config.data.augmentation=none",
        "--config.model.width=1",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "upsilon on digits: finished" in done.stdout
    assert "step 2/2" in done.stderr
    assert result(tmp_path / "runs/digits-upsilon-m50-s0")["status"] == "finished"


def made(**values):
    """What `train` returns of the digits."""
    return plain(make_result(**values))


def test_a_diverged_run_has_an_exit_code_of_its_own(tmp_path, monkeypatch, capsys):
    diverged = made(status="diverged", diverged_step=3)
    monkeypatch.setattr("upsilon_jax.train", lambda *_, **__: diverged)
    argv = [f"--workdir={tmp_path}"]
    assert commandline.call(main.COMMAND, main.main, argv) == 3
    assert "upsilon on digits: diverged at step 3" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [(), ("start_over",), ("override_config",)])
def test_flags_reach_the_function_that_trains(tmp_path, monkeypatch, flags):
    calls = []

    def train(config, workdir, **told):
        calls.append((config.method.name, workdir, told))
        return made()

    monkeypatch.setattr("upsilon_jax.train", train)
    argv = [f"--workdir={tmp_path}", *(f"--{flag}" for flag in flags)]
    assert commandline.call(main.COMMAND, main.main, argv) == 0
    told = {name: name in flags for name in ("start_over", "override_config")}
    assert calls == [("upsilon", tmp_path, told)]


@pytest.mark.parametrize(
    "flags, place",
    [
        (["--distributed"], (None, None, None)),
        (["--coordinator=here:12", "--num_processes=2"], ("here:12", 2, None)),
    ],
)
def test_one_process_of_several_joins_them_in_a_child(monkeypatch, flags, place):
    done = []

    @contextlib.contextmanager
    def joined(place):
        done.append(place)
        yield

    def train_here(options):
        done.append("trains")
        return 0

    monkeypatch.setattr(main.cluster, "joined", joined)
    monkeypatch.setattr(main, "train_here", train_here)
    monkeypatch.setattr(main.parent, "wait_for_child", lambda: 75)
    call = lambda: commandline.call(main.COMMAND, main.main, flags)
    assert call() == 75 and not done
    monkeypatch.setattr(main.parent, "is_child", lambda: True)
    assert call() == 0 and done == [place, "trains"]


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path):
    done = run("--config.train.epoch=3", cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("main.py: ") and "did you mean train.epochs" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--config.data.labels_per_class=500"], ["labels_per_class=500", "has only"]),
        (["--config.data.num_unlabeled=5000"], ["num_unlabeled=5000", "only"]),
        (
            ["--config.data.ood_classes=('5','6')"],
            ["data.ood_classes", "5", "data.id_classes"],
        ),
        (["--config.data.id_classes=('0','zero')"], ["data.id_classes", "zero"]),
        (
            ["--config=configs/cifar10.py", "--config.data.data_dir=nowhere"],
            ["nowhere", "python -m upsilon_jax.data"],
        ),
        (
            ["--config=digits:re_assigned", "--config.method.assignment_seed=361"],
            ["re_assigned", "assignment_seed=361", "not so many"],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_what_does_not_fit_the_data_is_one_line(tmp_path, args, told, capsys):
    argv = [*args, f"--workdir={tmp_path / 'run'}"]
    assert commandline.call(main.COMMAND, main.main, argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    for word in told:
        assert word in line


@pytest.mark.slow
def test_a_run_prints_progress_and_a_summary_and_the_second_one_only_that(tmp_path):
    workdir = f"--workdir={tmp_path / 'run'}"
    first = run(*SMALL, workdir)
    assert first.returncode == 0, first.stderr
    assert "upsilon on digits: finished" in first.stdout
    assert "step 12/12" in first.stderr and "accuracy" in first.stderr
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    second = run(*SMALL, workdir)
    assert second.returncode == 0 and second.stdout == first.stdout
    assert not second.stderr


@pytest.mark.slow
def test_quiet_leaves_the_summary_and_nothing_is_coloured(tmp_path):
    quiet = run(*SMALL, "--quiet", f"--workdir={tmp_path / 'quiet'}")
    assert quiet.returncode == 0, quiet.stderr
    assert "upsilon on digits: finished" in quiet.stdout and not quiet.stderr
    ours, theirs = os.openpty()  # as in a terminal, where there is a bar
    termios.tcsetwinsize(theirs, (24, 100))
    process = subprocess.Popen(
        command(*SMALL, f"--workdir={tmp_path / 'loud'}"),
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how the other end says that it is closed
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert process.wait(60) == 0 and b"12/12" in shown
    assert not re.search(rb"\x1b\[[0-9;]*m", shown)


@pytest.mark.slow
def test_without_tensorflow_a_run_works_and_says_so(tmp_path):
    """TensorFlow is made unfindable by a stub that hides it from importlib."""
    hide = (
        "import importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda n, *a: None if n == 'tensorflow' else find(n, *a); "
        "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, '.'); "
        "runpy.run_path('main.py', run_name='__main__'); "
    )
    done = subprocess.run(
        [sys.executable, "-c", hide, "main.py", *SMALL, f"--workdir={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("TensorBoard is off") == 1
    assert not (tmp_path / "tensorboard").exists()


def result(workdir):
    found = json.loads((workdir / "result.json").read_text())
    return found | {"history": without_seconds(found["history"])}


@pytest.mark.slow
def test_killed_at_any_moment_a_run_ends_bit_identical(tmp_path):
    # After the first checkpoint so many epochs take seconds: no signal comes too late.
    args = (*SMALL, "--config.train.epochs=30")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(*args, f"--workdir={whole}").returncode == 0
    checkpoints = killed / "checkpoints"
    for number, signum in enumerate((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)):
        process = subprocess.Popen(
            command(*args, f"--workdir={killed}"),
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        before = set(os.listdir(checkpoints)) if checkpoints.exists() else set()
        fresh = lambda: (
            checkpoints.exists() and set(os.listdir(checkpoints)) - before  # noqa: B023
        )
        wait_for(fresh, process)
        time.sleep(0.05 * number)  # not always at the same point of a save
        process.send_signal(signum)
        _, errors = process.communicate(timeout=300)
        if signum == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode == 128 + signal.SIGTERM
            assert "stopped by SIGTERM" in errors and "saved at step" in errors
    assert run(*args, f"--workdir={killed}").returncode == 0
    left, right = result(whole), result(killed)
    assert right["resumed_from"] and min(right["resumed_from"]) > 0
    assert left["params_digest"] == right["params_digest"]
    assert left["history"] == right["history"]
