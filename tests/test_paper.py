"""The paper's experiments as commands."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.report.made import desk, write
from upsilon_jax import commandline
from upsilon_jax.data import load_source
from upsilon_jax.errors import ConfigError, UserError
from upsilon_jax.paper import __main__ as command
from upsilon_jax.paper import cost
from upsilon_jax.paper.claims import CLAIMS
from upsilon_jax.paper.experiments import EXPERIMENTS, Experiment, Runs
from upsilon_jax.paper.runs import SCALES, configs_of, total_steps
from upsilon_jax.report.figures import FIGURES
from upsilon_jax.report.tables import TABLES

ROOT = pathlib.Path(__file__).parent.parent
NAMES = [f"E{number}" for number in range(1, 17)]


def test_there_are_sixteen_with_something_to_show():
    assert list(EXPERIMENTS) == NAMES
    for experiment in EXPERIMENTS.values():
        assert experiment.table in (None, *TABLES)
        assert set(experiment.figures) <= set(FIGURES)
        assert experiment.table or experiment.figures


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_all_configs_are_valid_and_no_two_runs_share_a_folder(name, scale):
    experiment = EXPERIMENTS[name]
    configs = configs_of(experiment, scale, {"data.data_dir": "somewhere"})
    texts = {
        json.dumps(config.to_dict(), sort_keys=True) for config in configs.values()
    }
    assert len(texts) == len(configs)
    assert {config.data.data_dir for config in configs.values()} <= {"somewhere"}
    if scale == "paper":
        assert configs


def test_a_run_is_called_the_same_in_all_experiments():
    found = {}
    for experiment in EXPERIMENTS.values():
        for name, config in configs_of(experiment, "desk", {}).items():
            assert found.setdefault(name, config) == config


def test_the_ablation_has_the_papers_size():
    configs = configs_of(EXPERIMENTS["E8"], "paper", {})
    assert len(configs) == 6 * 5 * 5  # methods, ratios, seeds
    assert {total_steps(config) for config in configs.values()} == {62_800}


def test_the_cost_of_a_network_is_that_of_its_multiplications():
    """A WRN-10-1 at 8×8, by hand: two operations for every weight and position."""
    stem = 8 * 8 * 9 * 3 * 16
    first = 8 * 8 * 9 * 16 * 16 * 2
    second = 4 * 4 * (9 * 16 * 32 + 9 * 32 * 32 + 16 * 32)
    third = 2 * 2 * (9 * 32 * 64 + 9 * 64 * 64 + 32 * 64)
    by_hand = 2 * (stem + first + second + third + 64 * 10)
    # Beside them there are BatchNorm and ReLU, and borders that multiply nothing.
    assert cost.forward_flops(10, 1, (8, 8, 3)) == pytest.approx(by_hand, rel=0.35)


@pytest.mark.parametrize(
    ("name", "fields", "shape"),
    [
        ("digits", {}, load_source("digits").image_shape),
        ("digits", {"data.image_size": 16}, (16, 16, 1)),
        ("cifar10_svhn", {}, (32, 32, 3)),
        ("cifar10_desk", {}, (16, 16, 3)),
        ("tin", {}, (64, 64, 3)),
    ],
)
def test_a_probe_has_the_shape_of_the_images(name, fields, shape, monkeypatch):
    probed = []
    monkeypatch.setattr(cost, "image_seconds", lambda *a: probed.append(a) or 0.0)
    runs = Runs(name, ("baseline",), (0.5,), (0,), fields)
    cost.hours(configs_of(Experiment("", (), (runs,), (runs,)), "desk", {}), "desk")
    assert [asked[2] for asked in probed] == [shape]


def test_images_count_twice_once_unlabeled_ones_take_part():
    baseline, upsilon = (
        configs_of(
            Experiment("", (), (Runs("digits", (method,), (0.5,), (0,)),)), "desk", {}
        ).popitem()[1]
        for method in ("baseline", "upsilon")
    )
    steps = total_steps(upsilon)
    assert cost.images_in_training(baseline) == 32 * steps
    assert cost.images_in_training(upsilon) == 32 * steps * (60 + 40) // 60


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "EXPERIMENT is missing"),
        (["E17"], "E17: no such experiment or claim"),
        (["C13"], "C13: no such experiment or claim"),
        (["E8", "--scale=desk "], "no such scale"),
        (["E8", "--jobs=no"], "--jobs=no"),
        (["E8", "--metric=accurate"], "no such metric; did you mean accuracy"),
        (["E1", "--metric=auroc"], "E1 has figures and no table"),
        (["E13", "--metric=auroc"], "the table imbalance has metrics of its own"),
        (["C5", "--metric=auroc"], "--metric: is for experiments, not for claims"),
        (["claims", "--scale=digits"], "--scale: is for experiments"),
    ],
)
def test_a_mistake_is_one_line(argv, told, tmp_path):
    with pytest.raises(ConfigError, match=told):
        options = commandline.parse(command.COMMAND, [*argv, f"--workdir={tmp_path}"])
        command.main(options)


def test_an_experiment_without_runs_prints_what_was_published(tmp_path, capsys):
    workdir = tmp_path / "runs" / "desk"  # nothing was run here before
    told = ["e7", f"--workdir={workdir}"]  # it has no runs at desk scale
    assert command.main(commandline.parse(command.COMMAND, told)) == 0
    table = capsys.readouterr().out
    assert "62.10" in table and table.strip() in (workdir / "E7/table.md").read_text()


def test_a_table_of_a_folder_that_is_not_there_is_refused(tmp_path):
    told = ["E7", "--table_only", f"--workdir={tmp_path / 'typo'}"]
    with pytest.raises(UserError, match="typo: there is no such folder"):
        command.main(commandline.parse(command.COMMAND, told))
    assert not (tmp_path / "typo").exists()


def test_published_numbers_need_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    told = ["E8", "--scale=digits", "--table_only"]
    assert command.main(commandline.parse(command.COMMAND, told)) == 0
    assert "78.50 ± 0.27" in capsys.readouterr().out


def test_with_a_metric_a_table_of_its_own_runs_is_printed_and_nothing_written(
    tmp_path, capsys
):
    others = desk("upsilon", 1.0, 0.7, fields={"method.num_clusters": 2})
    write(tmp_path, desk("upsilon", 1.0, 0.6), others)
    before = sorted(tmp_path.rglob("*"))
    told = ["E8", "--metric=accuracy", f"--workdir={tmp_path}"]
    assert command.main(commandline.parse(command.COMMAND, told)) == 0
    table = capsys.readouterr().out
    assert "60.00" in table and "70.00" not in table
    assert sorted(tmp_path.rglob("*")) == before


def test_all_tables_are_printed_with_a_metric_that_they_can_show(tmp_path, capsys):
    told = ["all", "--metric=auroc", f"--workdir={tmp_path}"]
    assert command.main(commandline.parse(command.COMMAND, told)) == 0
    shown = capsys.readouterr().out
    assert "(E8)" in shown and "(E11)" in shown and "(E13)" not in shown


def test_an_experiment_without_table_says_that_it_has_no_runs(tmp_path, capsys):
    told = ["E1", "--table_only", f"--workdir={tmp_path}"]
    assert command.main(commandline.parse(command.COMMAND, told)) == 0
    shown = capsys.readouterr()
    assert not shown.out and shown.err == f"E1: none of its runs is in {tmp_path}\n"


def test_claims_are_judged_by_the_folders_of_the_scales_alone(tmp_path, capsys):
    """A study beside them may have the same run again."""
    for folder, accuracy in (("desk", 0.7), ("study", 0.9)):
        write(tmp_path / folder, desk("baseline", 1.0, 0.6), desk("pl", 1.0, accuracy))
    told = ["C6", f"--workdir={tmp_path}"]
    assert command.main(commandline.parse(command.COMMAND, told)) == 0
    assert "| 70.00 |" in capsys.readouterr().out


def test_the_runs_of_an_experiment_are_all_that_its_figure_shows():
    """Times are relative to `pl`; the usual K and number of iterations are points."""
    for scale in ("desk", "paper"):
        found = configs_of(EXPERIMENTS["E16"], scale, {}).values()
        assert {config.method.name for config in found} == {"pl", "upsilon"}
        usual = [c.method for c in found if c.method.name == "upsilon"]
        assert (4, 32) in {(of.num_clusters, of.num_iters) for of in usual}
        found = configs_of(EXPERIMENTS["E9"], scale, {}).values()
        for ratio in (0.5, 1.0):
            names = {c.method.name for c in found if c.data.mismatch == ratio}
            assert {"baseline", "rpl", "upsilon"} <= names


def test_one_claim_is_what_it_is_among_all(capsys):
    def printed(argument):
        told = [argument, f"--workdir={ROOT / 'results' / 'desk'}"]
        assert command.main(commandline.parse(command.COMMAND, told)) == 0
        return capsys.readouterr().out.strip()

    one, every = printed("c9"), printed("claims")
    assert one.startswith("### C9. ") and one in every
    assert one.count("### ") == 1 and every.count("### ") == len(CLAIMS)


def test_the_list_has_a_line_for_each(monkeypatch, capsys):
    monkeypatch.setattr(command, "hours", lambda configs, scale: 1.5)
    command.main(commandline.parse(command.COMMAND, ["--list"]))
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == NAMES
    assert all(" 1.5 h " in line for line in lines)


@pytest.mark.slow
def test_an_experiment_from_start_to_table_and_figure(tmp_path, monkeypatch, capsys):
    small = {
        "train.epochs": 3,
        "train.pretrain_epochs": 1,
        "data.num_unlabeled": 96,
        "data.augmentation": "none",
        "model.width": 1,
    }
    runs = Runs("digits", ("baseline", "pl", "upsilon"), (0.5, 1.0), (0,), small)
    tiny = Experiment("", (), (runs,), table="ablation", figures=("ratio",))
    monkeypatch.setitem(command.EXPERIMENTS, "E8", tiny)
    told = ["E8", f"--workdir={tmp_path}", "--jobs=2"]
    assert command.main(commandline.parse(command.COMMAND, told)) == 0
    assert len(list(tmp_path.glob("digits-*/result.json"))) == 6
    assert {path.name for path in (tmp_path / "E8").iterdir()} == {
        "table.md",
        "ratio.png",
        "ratio.svg",
    }
    table = capsys.readouterr().out
    assert command.main(commandline.parse(command.COMMAND, told)) == 0  # all are there
    assert capsys.readouterr().out == table


@pytest.mark.slow
def test_the_list_as_a_person_sees_it():
    asked = [sys.executable, "-m", "upsilon_jax.paper", "--list", "--scale=paper"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(f"\n{name} " in done.stdout for name in NAMES)
