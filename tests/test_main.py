"""main.py as a user meets it: a process, its exit code, and what it prints."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

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


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--config.train.epoch=3"], ["epoch", "Did you mean", "epochs"]),
        (["--config.train.epochs=many"], ["train.epochs", "many"]),
        (["--config.method.threshold=1.5"], ["method.threshold=1.5", "[0, 1]"]),
        (["--config=configs/no_such.py"], ["no_such.py"]),
        (["--config=configs/digits.py:upsilom"], ["upsilom", "upsilon"]),
        (["--no_such_flag"], ["no_such_flag"]),
        (["train"], ["unexpected 'train'"]),
        (["--config.data.labels_per_class=500"], ["labels_per_class=500", "has only"]),
        (["--config.data.num_unlabeled=5000"], ["num_unlabeled=5000", "only"]),
        (["--config.data.name=digit"], ["data.name='digit'", "digits"]),
        (
            ["--config.data.ood_classes=('5','6')"],
            ["data.ood_classes", "5", "data.id_classes"],
        ),
        (["--config.data.id_classes=('0','zero')"], ["data.id_classes", "zero"]),
        (
            ["--config=configs/cifar10.py", "--config.data.data_dir=nowhere"],
            ["nowhere", "python -m upsilon_jax.data"],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
@pytest.mark.slow
def test_what_a_user_can_mend_gets_one_line_and_exit_code_2(tmp_path, args, told):
    done = run(*args, f"--workdir={tmp_path / 'run'}")
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("main.py: ")
    for word in told:
        assert word in lines[0]
    assert not done.stdout


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


def wait_for(condition, process, seconds=300):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "took too long"
        time.sleep(0.01)


def result(workdir):
    found = json.loads((workdir / "result.json").read_text())
    for entry in found["history"]:
        for key in [key for key in entry if key.endswith("_seconds")]:
            del entry[key]
    return found


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
