"""Weights & Biases: on where a project is named, with a module that plays it."""

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest

from tests.faults.test_workdir import full_disk
from tests.test_main import ROOT, SMALL, command
from upsilon_jax.errors import UserError
from upsilon_jax.workdir import wandb_writer


class Refused(Exception):
    pass


@pytest.fixture
def played(monkeypatch):
    """What a run of wandb was told: [(name of the call, its arguments)]."""
    calls = []
    tell = lambda name: lambda *args, **kwargs: calls.append((name, args or kwargs))
    run = types.SimpleNamespace(
        log=tell("log"), finish=tell("finish"), define_metric=tell("define_metric")
    )

    def init(**kwargs):
        if kwargs["config"].get("refused"):
            raise Refused("nobody is logged in")
        calls.append(("init", kwargs))
        return run

    module = types.SimpleNamespace(
        init=init,
        Settings=dict,
        Histogram=lambda np_histogram: np_histogram[0].tolist(),
        errors=types.SimpleNamespace(Error=Refused),
    )
    monkeypatch.setitem(sys.modules, "wandb", module)
    return calls


def test_it_is_on_where_a_project_is_named(monkeypatch):
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    assert not wandb_writer.is_wanted()
    monkeypatch.setenv("WANDB_PROJECT", "photos")
    assert wandb_writer.is_wanted()


def test_numbers_and_counts_arrive_with_their_step(played, tmp_path):
    writer = wandb_writer.WandbWriter(tmp_path, {"seed": 3})
    writer.write_scalars(5, {"train/loss": 0.25})
    labels = np.array([0, 0, 1, 2])
    writer.write_histograms(6, {"pseudo_labels": labels}, {"pseudo_labels": 3})
    writer.flush()
    writer.close()
    (_, told), *_ = played
    assert told["config"] == {"seed": 3} and told["name"] == tmp_path.name
    logged = [args[0] for name, args in played if name == "log"]
    assert logged == [
        {"train/loss": 0.25, "step": 5},
        {"pseudo_labels": [2, 1, 1], "step": 6},
    ]
    assert played[-1][0] == "finish"


def test_a_run_that_goes_on_is_the_same_run(played, tmp_path):
    for name in ("one", "one", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        wandb_writer.WandbWriter(tmp_path / name, {}).close()
    one, again, other = (told["id"] for name, told in played if name == "init")
    assert one == again != other


def test_what_wandb_refuses_is_one_line(played, tmp_path):
    with pytest.raises(UserError, match="nobody is logged in .WANDB_MODE=offline"):
        wandb_writer.WandbWriter(tmp_path, {"refused": True})


@pytest.mark.parametrize("error", [Refused("gone"), BrokenPipeError(32, "gone")])
def test_what_wandb_refuses_later_is_one_line_too(played, tmp_path, monkeypatch, error):
    def refuse(*_, **__):
        raise error

    writer = wandb_writer.WandbWriter(tmp_path, {})
    monkeypatch.setattr(writer._run, "log", refuse)
    monkeypatch.setattr(writer._run, "finish", refuse)
    for call in (
        lambda: writer.write_scalars(1, {"loss": 1.0}),
        lambda: writer.write_histograms(1, {"x": np.arange(3)}, {"x": 3}),
        writer.close,
    ):
        with pytest.raises(UserError, match="Weights & Biases: .*gone$"):
            call()


def test_on_a_full_disk_no_run_of_wandb_begins(played, tmp_path):
    with full_disk(), pytest.raises(UserError, match="run_id: cannot be written"):
        wandb_writer.WandbWriter(tmp_path, {})
    assert not played and not list((tmp_path / "wandb").iterdir())


@pytest.mark.slow
def test_a_real_run_is_kept_on_this_disk(tmp_path):
    pytest.importorskip("wandb")
    done = subprocess.run(
        command(*SMALL, "--quiet", f"--workdir={tmp_path}"),
        cwd=ROOT,
        env={**os.environ, "WANDB_PROJECT": "photos", "WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "upsilon on digits: finished" in done.stdout and not done.stderr
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    assert kept.stat().st_size > 1000
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "finished"
