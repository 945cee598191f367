"""A sweep as jobs of a real scheduler, and what is said where there is none."""

import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from tests.sweep import scheduler
from tests.sweep.scheduler import output, wait_until
from tests.training.test_processes import free_port
from tests.training.tiny_run import baseline, digests
from tests.workdir.test_schema import make_result
from upsilon_jax import commandline
from upsilon_jax.config.repeat import arguments_of
from upsilon_jax.errors import ConfigError
from upsilon_jax.sweep import __main__ as sweep
from upsilon_jax.sweep import job, slurm
from upsilon_jax.sweep.grid import grid
from upsilon_jax.sweep.workers import LOG, is_complete
from upsilon_jax.workdir.files import CONFIG, RESULT, write_json

ROOT = pathlib.Path(__file__).parents[2]
SMALL = (
    "--config.train.epochs=24",
    "--config.train.pretrain_epochs=1",
    "--config.train.save_epochs=1",
    "--config.data.num_unlabeled=96",
    "--config.data.augmentation=none",
    "--config.model.depth=10",
    "--config.model.width=1",
    "--config.method.threshold=0.4",  # the baseline has none: left out there
)
SWEEP = ("--methods=baseline,pl", "--seeds=0", *SMALL)


@pytest.fixture(scope="module")
def cluster():
    """The environment of a running SLURM."""
    if why := scheduler.missing():
        pytest.skip(why)
    with scheduler.running() as environment:
        yield environment


def run(module, *args, **kwargs):
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        **kwargs,
    )
    assert done.returncode == 0, done.stderr
    return done


def saved(workdir):
    return any(path.name.isdecimal() for path in workdir.glob("checkpoints/*"))


@pytest.mark.slow
def test_jobs_end_with_the_table_of_a_local_sweep(tmp_path, cluster):
    """One is told to make room; it saves, is requeued, and goes on."""
    there = tmp_path / "slurm"
    args = (*SWEEP, "--launcher=slurm", "--partition=short", f"--workdir={there}")
    said = run("upsilon_jax.sweep", *args, "--time_limit=30", env=cluster).stderr
    number = re.search(r"submitted as job (\d+)", said)[1]
    told = there / "digits-pl-m50-s0"
    wait_until(lambda: saved(told))
    index = list(grid(commandline.parse(sweep.COMMAND, args))).index(told.name)
    task = f"{number}_{index}"
    assert not (told / "result.json").exists()
    subprocess.run(["scancel", "--signal=USR2", task], env=cluster, check=True)
    shown = lambda: output(cluster, "scontrol", "show", "job", task)
    wait_until(lambda: "Restarts=1" in shown())
    wait_until(lambda: not output(cluster, "squeue", "--noheader"))
    log = (told / LOG).read_text()
    assert "stopped by SIGTERM" in log and "Traceback" not in log
    (step,) = json.loads((told / "result.json").read_text())["resumed_from"]
    assert f"saved at step {step};" in log

    again = run("upsilon_jax.sweep", *args, env=cluster).stderr
    assert "submitted" not in again and "the table:" in again
    here = tmp_path / "local"
    run("upsilon_jax.sweep", *SWEEP, f"--workdir={here}", "--jobs=1")  # all cores, too
    assert digests(there) == digests(here) and len(digests(here)) == 2
    table = lambda folder: run("upsilon_jax.report", str(folder)).stdout
    assert table(there).replace(str(there), "") == table(here).replace(str(here), "")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--distributed", "--coordinator=127.0.0.1:{port}"])
def test_two_tasks_train_one_run_and_a_signal_to_the_job_is_one_signal(
    tmp_path, cluster, flag
):
    """SLURM tells them who they are; it signals them, their parents and srun."""
    where = (flag.format(port=free_port()), f"--workdir={tmp_path / 'run'}")
    command = [sys.executable, str(ROOT / "main.py"), "--config=digits:pl", *SMALL]
    with subprocess.Popen(
        ["srun", "--ntasks=2", "--job-name=both", *command, *where],
        env=cluster,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as both:
        wait_until(lambda: saved(tmp_path / "run") or both.poll() is not None)
        subprocess.run(
            ["scancel", "--signal=TERM", "--name=both"], env=cluster, check=True
        )
        _, said = both.communicate(timeout=200)
    assert both.returncode == 143 and said.count("main.py: stopped by SIGTERM") == 2
    assert said.count("saved at step") == 1, said


@pytest.mark.slow
def test_what_slurm_refuses_is_one_line(tmp_path, cluster):
    done = subprocess.run(
        [sys.executable, "-m", "upsilon_jax.sweep", "--launcher=slurm"]
        + ["--partition=gone", f"--workdir={tmp_path}"],
        env=cluster,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "invalid partition" in done.stderr


def test_a_job_s_command_makes_the_same_config(monkeypatch):
    monkeypatch.chdir(ROOT)
    told = ("--methods=upsilon,fixmatch+sec,baseline", "--mismatch=0.25", "--seeds=3")
    fields = ("--config.data.id_classes=('0','it\\'s')", "--config.train.epochs=70")
    options = commandline.parse(sweep.COMMAND, (*told, *fields))
    for config in grid(options).values():
        file = str(options.config_file)
        argv = arguments_of(config.to_dict(), file)
        argv.append(f"--config={file}:{config.method.name}")
        made = commandline.parse(sweep.COMMAND, argv).config
        assert made.to_dict() == config.to_dict()


def test_a_run_of_several_seeds_is_submitted_until_all_have_a_result(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(slurm, "_check_installed", lambda: None)
    config = baseline(**{"seed": 3, "train.num_seeds": 2})
    for seed in (3, 4):
        assert not is_complete(config, tmp_path / "run")
        stored = baseline(seed=seed).to_dict()
        folder = tmp_path / "run" / f"seed_{seed}"
        folder.mkdir(parents=True)
        write_json(folder / CONFIG, stored)
        write_json(folder / RESULT, make_result(config=stored))
    assert slurm.submit({"run": config}, ROOT / "digits.py", tmp_path, {}) is None


def test_jobs_at_a_time_are_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "_check_installed", lambda: None)
    with pytest.raises(ConfigError, match="--jobs=0: must be a number, at least 1"):
        slurm.submit({}, ROOT / "digits.py", tmp_path, {}, "0")


def test_options_have_the_names_of_sbatch():
    assert slurm.parse_options(None, None, ()) == {}
    others = ("--mem=8G", "cpus_per_task=4", "exclude=a,b", "comment=x=y")
    assert slurm.parse_options("gpu", "2:00:00", others) == {
        "partition": "gpu",
        "time": "2:00:00",
        "mem": "8G",
        "cpus-per-task": "4",
        "exclude": "a,b",
        "comment": "x=y",
    }
    with pytest.raises(ConfigError, match="--slurm=mem: must be NAME=VALUE"):
        slurm.parse_options(None, None, ("mem",))


def in_a_job(code, log):
    """A job whose command is Python code, in a process of its own."""
    command = [sys.executable, "-u", "-c", code]
    script = (
        "import pathlib; from upsilon_jax.sweep import job; "
        f"job.run({command}, pathlib.Path({str(log)!r}))"
    )
    return subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)


def test_a_job_ends_as_its_command_does(tmp_path):
    for code, expected in ((0, 0), (3, 0), (2, 2), (143, 143)):
        log = tmp_path / "run" / "log.txt"
        with in_a_job(f"print({code}); raise SystemExit({code})", log) as process:
            assert process.wait(60) == expected
    assert log.read_text().split() == ["0", "3", "2", "143"]


def test_a_job_that_makes_room_saves_and_is_requeued(tmp_path, monkeypatch):
    """The command hears SIGTERM once, never the signal of the scheduler."""
    requeue = tmp_path / "scontrol"
    requeue.write_text(f"#!/bin/sh\necho $@ > {tmp_path}/called\n")
    requeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    code = (
        "import os, signal, sys, time\n"
        "from tests.faults.processes import signal_parent\n"
        "heard = []\n"
        "signal.signal(15, lambda *_: heard.append(15))\n"
        f"os.kill(os.getpid(), {job.MAKE_ROOM})\n"
        f"signal_parent({job.MAKE_ROOM})\n"
        "end = time.monotonic() + 30\n"
        "while not heard and time.monotonic() < end: time.sleep(0.01)\n"
        f"signal_parent({job.MAKE_ROOM})\n"
        "time.sleep(0.5)\n"  # in which a second SIGTERM would come
        "print('saved', heard)\n"
        "sys.exit(143)\n"
    )
    with in_a_job(code, tmp_path / "log.txt") as process:
        assert process.wait(60) == 128 + signal.SIGTERM
    assert (tmp_path / "log.txt").read_text() == "saved [15]\n"
    assert (tmp_path / "called").read_text() == "requeue 17\n"
