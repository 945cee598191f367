"""The records of `result.json` and `manifest.json`."""

import json
import pathlib

import pytest

from upsilon_jax.config import load_config, own_data_config
from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.__main__ import reference
from upsilon_jax.workdir.records import parse, plain, read
from upsilon_jax.workdir.schema import FORMAT, Entry, Imbalance, Labels, Result

ROOT = pathlib.Path(__file__).parents[2]


CONFIG = {
    "method": {"name": "upsilon"},
    "data": {"name": "digits"},
    "train": {"report_epochs": 5},
}


def make_result(**fields):
    """A valid result with the given fields."""
    common = {
        "format": FORMAT,
        "status": "finished",
        "seed": 0,
        "config": CONFIG,
        "classes": ["a", "b"],
        "accuracy": 0.5,
        "accuracy_live": 0.25,
        "confusion": [[1, 0], [2, 3]],
        "auroc": None,
        "imbalance": Imbalance(0.1, 2.0, 0.3, float("inf")),
        "diverged_step": None,
        "resumed_from": [],
        "split_digest": "0" * 64,
        "params_digest": "1" * 64,
        "native": False,
        "versions": {"jax": "1"},
        "history": [],
    }
    return Result(**common | fields)


HISTORY = [
    Entry(1, 13, {"loss": 0.5}),
    Entry(
        2,
        26,
        {"loss": 0.25, "unlabeled_loss": 0.125},
        accuracy=0.5,
        accuracy_live=0.75,
        labels=Labels(9, 6, 2, 3, ood_share=0.5),
        imbalance=Imbalance(kl_id=0.5),
        refresh_seconds=1.5,
    ),
]


def test_a_result_comes_back_from_json():
    result = make_result(history=HISTORY, imbalance=Imbalance(0.1, 2.0, 0.3, None))
    text = json.dumps(plain(result), allow_nan=False)
    assert parse(Result, json.loads(text), "here") == result


def test_an_entry_is_flat_and_leaves_out_what_is_not_known():
    first, second = plain(HISTORY)
    assert first.keys() == {
        *("epoch", "step", "loss"),
        *("train_seconds", "refresh_seconds", "evaluate_seconds", "epoch_seconds"),
    }
    assert second["unlabeled_loss"] == 0.125 and second["per_class"] == 2
    assert "pseudo_accuracy" not in second and "kl_ood" not in second


def test_numbers_that_are_not_finite_are_null():
    assert plain(make_result())["imbalance"]["ratio_ood"] is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.pop("format"), f"no result of format {FORMAT};"),
        (lambda r: r.update(format=1), f"no result of format {FORMAT} but of 1;"),
        (lambda r: r.pop("seed"), "'seed' is missing"),
        (lambda r: r.update(more=1), "'more' is unknown"),
        (lambda r: r.update(seed="0"), "'seed' must be int, got '0'"),
        (lambda r: r.update(native=1), "'native' must be bool, got 1"),
        (lambda r: r.update(seed=10**30), "'seed' must be int, got 1000"),
        (lambda r: r.update(accuracy=10**400), "'accuracy' must be float"),
        (lambda r: r.update(accuracy=float("nan")), "must be float, got nan"),
        (lambda r: r.update(classes="ab"), "'classes' must be"),
        (lambda r: r.update(seed="x" * 10**5), "(100,002 characters)"),
        (lambda r: r.update({"x" * 10**5: 1}), "(100,002 characters) is unknown"),
        (lambda r: r.update(confusion=[[1, 0]]), "'confusion' must have a row"),
        (lambda r: r.update(confusion=[[1], []]), "'confusion' must have a row for"),
        (lambda r: r.update(confusion=[[], []]), "'confusion' must have a row for"),
        (lambda r: r.update(unlabeled_confusion=[]), "'unlabeled_confusion' must have"),
        (lambda r: r.update(history=[{"epoch": 1}]), "Entry: 'step' is missing"),
        (lambda r: r["history"][1].update(loss="x"), "'metrics' must be float"),
        (lambda r: r["history"][1].pop("per_class"), "Labels: 'per_class' is missing"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(tmp_path, change, told):
    value = plain(make_result(history=HISTORY))
    change(value)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(value))
    with pytest.raises(WorkdirError) as error:
        read(Result, path)
    assert str(error.value).startswith(f"{path}: is no result") and told in str(
        error.value
    )
    assert "\n" not in str(error.value)


def test_configs_of_every_kind_and_age_are_read():
    older = {"train": {"report_epochs": 5}, "method": {"name": "gone", "new": [1, "x"]}}
    for config in (
        load_config("digits", "fixmatch+upsilon").to_dict(),
        own_data_config("npz", "pl").to_dict(),
        {**older, "data": {"name": "gone", "new": None}},
    ):
        assert parse(Result, plain(make_result(config=config)), "here")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.clear(), "'data.name' of 'config' is missing"),
        (lambda c: c.pop("method"), "'method.name' of 'config' is missing"),
        (lambda c: c["data"].update(name=None), "'data.name' of 'config' is missing"),
        (lambda c: c.update(data="x"), "'data' of 'config' cannot be 'x'"),
        (lambda c: c.update(model={}), "'model' of 'config' cannot be {}"),
        (lambda c: c.update({"data.name": "x"}), "'data.name' of 'config' cannot be"),
        (lambda c: c["method"].update(name=["pl"]), "'method.name' of 'config' cannot"),
        (lambda c: c["method"].update(upsilon=1), "'method.upsilon' of 'config'"),
        (lambda c: c["method"].update(new={"a": 1}), "'method.new' of 'config' cannot"),
        (lambda c: c["method"].update(new=[[1]]), "'method.new' of 'config' cannot"),
        (lambda c: c["method"].update(new=1e999), "'method.new' of 'config' cannot be"),
        (lambda c: c["method"]["upsilon"].update(threshold="x"), "cannot be 'x'"),
        (lambda c: c["train"].update(report_epochs="x"), "cannot be 'x'"),
        (lambda c: c["data"].update(mismatch="x"), "cannot be 'x'"),
        (lambda c: c["data"].update(mismatch=10**400), "cannot be 1000"),
    ],
)
def test_a_config_that_readers_cannot_use_is_refused_in_one_line(change, told):
    config = load_config("digits", "fixmatch+upsilon").to_dict()
    value = plain(make_result(config=config))
    change(value["config"])
    with pytest.raises(WorkdirError) as error:
        parse(Result, value, "here")
    assert str(error.value).startswith("here: is no result: ")
    assert told in str(error.value) and len(str(error.value)) < 200


@pytest.mark.parametrize("text", ["[]", "{", "\xff", "null"])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(WorkdirError, match="is no"):
        read(Result, path)
    with pytest.raises(WorkdirError, match="there is no such file"):
        read(Result, tmp_path / "other.json")


def test_the_documentation_is_that_of_the_schema():
    assert (ROOT / "docs" / "result.md").read_text("utf-8") == reference()
