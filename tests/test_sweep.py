"""The sweep as a user meets it, and the table of its runs."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from tests.training.tiny_run import digests
from tests.workdir.test_schema import make_result
from upsilon_jax import commandline
from upsilon_jax.errors import ConfigError, UserError
from upsilon_jax.methods import METHODS
from upsilon_jax.sweep import workers
from upsilon_jax.sweep.__main__ import COMMAND
from upsilon_jax.sweep.grid import grid
from upsilon_jax.sweep.queue import _Shown, choose_jobs
from upsilon_jax.sweep.workers import (
    CRASHED,
    REFUSED,
    STOPPED,
    Outcome,
    Task,
    Worker,
    _train,
    backend,
    divided,
)
from upsilon_jax.training import seeds
from upsilon_jax.workdir.records import plain
from upsilon_jax.workdir.schema import DIVERGED, FINISHED

ROOT = pathlib.Path(__file__).parent.parent
SMALL = (
    "--config.train.epochs=2",
    "--config.train.pretrain_epochs=1",
    "--config.data.num_unlabeled=96",
    "--config.data.augmentation=none",
    "--config.model.width=1",
    "--config.method.threshold=0.4",  # the baseline has none: left out there
)


def run(module, *args):
    return subprocess.run(
        [sys.executable, "-m", module, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.slow
def test_a_sweep_trains_all_combinations_once_and_the_report_tabulates_them(tmp_path):
    args = ("--methods=baseline,pl", "--seeds=0,1", f"--workdir={tmp_path}", *SMALL)
    done = run("upsilon_jax.sweep", *args)
    assert done.returncode == 0, done.stderr
    names = sorted(path.parent.name for path in tmp_path.rglob("result.json"))
    expected = [f"digits-{m}-m50-s{s}" for m in ("baseline", "pl") for s in (0, 1)]
    assert names == expected
    stored = json.loads((tmp_path / "digits-pl-m50-s1" / "config.json").read_text())
    assert stored["method"]["threshold"] == 0.4 and stored["seed"] == 1
    again = run("upsilon_jax.sweep", *args)
    assert again.returncode == 0 and "step" not in again.stderr.replace("steps", "")
    table = run("upsilon_jax.report", str(tmp_path), "--cost_of=pl")
    assert table.returncode == 0 and "| digits | baseline |" in table.stdout
    assert "seeds per cell: 2" in table.stdout


def runs(*told):
    return list(grid(commandline.parse(COMMAND, told)).values())


def test_all_methods_have_a_name_for_them_together():
    configs = runs("--methods=all", "--seeds=0,3", "--mismatch=0,0.5")
    assert [c.method.name for c in configs] == 4 * list(METHODS)
    per_seed = 2 * len(METHODS)
    assert [c.seed for c in configs] == [0] * per_seed + [3] * per_seed
    assert {c.data.mismatch for c in configs} == {0, 0.5}


def test_seeds_are_numbers_and_ranges():
    assert [c.seed for c in runs("--methods=pl", "--seeds=0-2,7")] == [0, 1, 2, 7]
    with pytest.raises(ConfigError, match="--seeds=0-x"):
        runs("--methods=pl", "--seeds=0-x")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (["--methods=pl,upsilonn"], "method.name='upsilonn': did you mean upsilon"),
        (["--methods="], "--methods=: names none"),
        (["--seeds=0,-1"], "seed=-1: must be in"),
        (["--seeds=5-3"], "--seeds=5-3: names none"),
        (["--seeds=0-100000000"], "--seeds=0-100000000: makes more than the 10,000"),
        (
            ["--seeds=0-4", "--mismatch=" + ",".join(["0.5"] * 1000)],
            "--seeds=0-4: makes more than the 10,000 runs of a sweep",
        ),
        (["--seeds=2147483648"], "seed=2147483648: must be in"),
        (["--mismatch=0.5,2"], "data.mismatch=2.0: must be in"),
        (["--mismatch=half"], "--mismatch=half: must be numbers"),
        (["--config.train.epoch=3"], "--config.train.epoch: no such field"),
        (
            ["--methods=baseline", "--config.method.threshold=0.4"],
            "--config.method.threshold: baseline has no such field",
        ),
        (["--config.seed=7"], "--config.seed: --seeds says it"),
        (
            ["--config.data.mismatch=1", "--mismatch=0"],
            "--config.data.mismatch: --mismatch says it",
        ),
        (
            ["--config=digits:oracle", "--methods=pl"],
            "--config=digits:oracle: --methods=pl leaves oracle out",
        ),
    ],
)
def test_whatever_a_sweep_is_told_is_checked_before_its_first_run(told, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        runs(*told)


@pytest.mark.parametrize("ends", ["{0}", "0-{0}", "{0}-{0}1"])
def test_a_seed_of_any_number_of_digits_is_one_short_line(ends):
    for count in (400, 4200, 5000):
        seeds = ends.format("9" * count)
        with pytest.raises(ConfigError, match="seed") as error:
            runs("--methods=pl", f"--seeds={seeds}")
        assert len(str(error.value)) < 300


def test_a_sweep_takes_the_share_of_foreign_images_from_the_config():
    (config,) = runs("--methods=pl", "--seeds=0", "--config.data.mismatch=0.25")
    assert config.data.mismatch == 0.25


def test_a_sweep_takes_the_method_from_the_config():
    names = lambda *told: [config.method.name for config in runs("--seeds=0", *told)]
    assert names() == ["baseline", "pl", "upsilon"]
    assert names("--config=digits:oracle") == ["oracle"]
    # With its fields, which may be changed, among other methods.
    several = ("--config=digits:re_assigned", "--methods=pl,re_assigned")
    field = "--config.method.assignment_seed=3"
    assert names(*several, field) == ["pl", "re_assigned"]


@pytest.mark.parametrize("told", ["0", "-1", "two"])
def test_jobs_are_a_number(told):
    with pytest.raises(ConfigError, match=f"--jobs={told}"):
        choose_jobs(told, 4)
    assert choose_jobs("3", 2) == 2  # no more than there are runs
    with pytest.raises(ConfigError, match="--jobs=9.*: must be a number") as error:
        choose_jobs("9" * 5000, 4)
    assert len(str(error.value)) < 300


def test_a_machine_without_the_device_that_is_asked_for_is_one_line(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "gone")
    with pytest.raises(UserError, match="JAX finds no device; see above"):
        backend()


def test_jobs_have_cores_of_their_own():
    assert divided([0, 1, 2, 3, 4], 2) == [[0, 1], [2, 3]]
    assert divided([4, 7], 2) == [[4], [7]]
    assert divided([0, 1], 3) == [[0, 1]] * 3


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_worker_that_dies_loses_its_run_and_is_replaced(tmp_path, has_begun):
    (config,) = runs("--methods=pl", "--seeds=0")
    worker = Worker([])
    task = Task("a run", config, tmp_path / "run", tmp_path / "shared")
    if has_begun:
        worker.begin(task)
    os.kill(worker._process.pid, signal.SIGKILL)
    worker._process.join()
    if not has_begun:
        worker.begin(task)
    assert worker.renewed() is worker  # not before its run is told of
    _, outcome = worker.ended()
    assert (outcome.name, outcome.status) == ("a run", CRASHED)
    assert "-9" in outcome.message
    other = worker.renewed()
    assert other is not worker and other.renewed() is other
    worker.close()
    other.close()


def test_whatever_has_no_result_is_told_at_the_end(capsys):
    shown = _Shown(total=5, jobs=1)
    for status in (FINISHED, DIVERGED, STOPPED, REFUSED, CRASHED):
        shown.end(Outcome("a run", status, message="why"))
    capsys.readouterr()
    shown.close()
    assert [outcome.status for outcome in shown.failed] == [STOPPED, REFUSED, CRASHED]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "not finished: a run stopped: why" and len(said) == 3


def test_the_time_left_is_that_of_runs_which_were_trained_here(capsys):
    shown = _Shown(total=3, jobs=1)
    shown.end(Outcome("found", FINISHED, seconds=0.2))
    assert "time left: known after the first run" in capsys.readouterr().err
    shown.end(Outcome("trained", FINISHED, seconds=60, trained=True))
    assert "about 01:00 left" in capsys.readouterr().err
    shown.close()


@pytest.mark.parametrize("found", [True, False])
def test_a_worker_tells_whether_it_trained(found, tmp_path, monkeypatch):
    result = plain(make_result())
    monkeypatch.setattr(seeds, "train", lambda *args, **kwargs: result)
    monkeypatch.setattr(workers, "is_complete", lambda config, workdir: found)
    (config,) = runs("--methods=pl", "--seeds=0")
    outcome = _train(Task("a run", config, tmp_path, tmp_path))
    assert outcome.status == FINISHED and outcome.trained != found


@pytest.mark.slow
def test_a_sweep_cut_off_and_started_twice_gives_the_same_results(tmp_path):
    longer = ("--config.train.epochs=6", "--config.train.pretrain_epochs=3")
    small = (*SMALL, *longer)
    grid = ("--methods=baseline,pl", "--seeds=0", "--mismatch=0.5,1", *small)
    whole = run("upsilon_jax.sweep", *grid, f"--workdir={tmp_path}/whole", "--jobs=1")
    assert whole.returncode == 0, whole.stderr
    alone = run(
        "main",
        "--config=configs/digits.py:pl",
        f"--workdir={tmp_path}/alone",
        "--config.data.mismatch=1",
        *small,
    )
    assert alone.returncode == 0, alone.stderr
    command = [sys.executable, "-m", "upsilon_jax.sweep", *grid]
    command += [f"--workdir={tmp_path}/cut", "--jobs=1"]
    start = lambda: subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    with start() as first:
        first.stderr.readline()  # a run has ended
        first.send_signal(signal.SIGTERM)
        first.communicate()
    assert first.returncode == 128 + signal.SIGTERM
    assert len(digests(tmp_path / "cut")) < 4
    with start() as one, start() as other:
        one.communicate()
        other.communicate()
    assert (one.returncode, other.returncode) == (0, 0)
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")
    # The run at the second ratio took its pre-training from the one at the first.
    shared = json.loads((tmp_path / "whole/digits-pl-m100-s0/result.json").read_text())
    assert shared["resumed_from"]
    (alone,) = digests(tmp_path / "alone").values()
    assert alone == digests(tmp_path / "whole")["digits-pl-m100-s0"]
