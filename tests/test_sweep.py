"""The sweep as a user meets it, and the table of its runs."""

import json
import pathlib
import subprocess
import sys

import pytest

from upsilon_jax import commandline, sweep
from upsilon_jax.methods import METHODS

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


def test_all_methods_have_a_name_for_them_together():
    told = ["--methods=all", "--seeds=0,3", "--mismatch=0,0.5"]
    configs = list(sweep.combinations(commandline.parse(sweep.COMMAND, told)))
    assert [c.method.name for c in configs] == 4 * list(METHODS)
    per_seed = 2 * len(METHODS)
    assert [c.seed for c in configs] == [0] * per_seed + [3] * per_seed
    assert {c.data.mismatch for c in configs} == {0, 0.5}


def test_a_sweep_takes_the_share_of_foreign_images_from_the_config():
    told = ["--methods=pl", "--seeds=0", "--config.data.mismatch=0.25"]
    (config,) = sweep.combinations(commandline.parse(sweep.COMMAND, told))
    assert config.data.mismatch == 0.25
