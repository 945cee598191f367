"""Which run a workdir holds."""

import json

import pytest

from tests.workdir.test_schema import make_result
from upsilon_jax.config import load_config
from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.files import CONFIG, RESULT, find_result, write_json

STORED = {
    "method": {"name": "pl"},
    "data": {"name": "folder", "image_size": 32},
    "train": {"epochs": 7, "report_epochs": 5},
}


@pytest.fixture
def workdir(tmp_path):
    """Of a finished run whose data have chosen both the size and the epochs."""
    write_json(tmp_path / CONFIG, STORED)
    write_json(tmp_path / RESULT, make_result(config=STORED))
    return tmp_path


def test_a_field_that_is_left_open_agrees_with_what_was_chosen(workdir):
    asked = {**STORED, "data": {"name": "folder", "image_size": None}}
    find = lambda config, left_open: find_result(
        workdir, config, override=False, left_open=left_open
    )
    assert find(asked, {"data.image_size"}).config == STORED
    with pytest.raises(WorkdirError, match="data.image_size: 32 → None"):
        find(asked, ())
    asked["train"] = {**STORED["train"], "epochs": 8}
    with pytest.raises(WorkdirError, match="train.epochs: 7 → 8"):
        find(asked, {"data.image_size"})


def test_a_field_that_was_added_since_is_at_its_default_in_an_older_config(tmp_path):
    config = load_config("digits", "upsilon").to_dict()
    older = json.loads(json.dumps(config))
    del older["data"]["unlabeled_ratio"], older["train"]["optimizer"]
    del older["method"]["solver"]
    write_json(tmp_path / CONFIG, older)
    write_json(tmp_path / RESULT, make_result(config=older))
    assert find_result(tmp_path, config, override=False).config == older
    config["data"]["unlabeled_ratio"] = 7
    with pytest.raises(WorkdirError, match="data.unlabeled_ratio: 1 → 7"):
        find_result(tmp_path, config, override=False)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "\xff"])
def test_a_damaged_config_is_one_line(workdir, text):
    (workdir / CONFIG).write_bytes(text.encode("latin-1"))
    with pytest.raises(WorkdirError) as error:
        find_result(workdir, STORED, override=False)
    assert str(error.value).startswith(f"{workdir / CONFIG}: is no")
    assert "\n" not in str(error.value)


def test_a_config_that_cannot_be_read_is_one_line(workdir):
    (workdir / CONFIG).unlink()
    (workdir / CONFIG).mkdir()
    with pytest.raises(WorkdirError, match="cannot be read"):
        find_result(workdir, STORED, override=False)


def test_a_result_of_another_config_is_not_taken_for_this_one(workdir):
    other = {**STORED, "train": {"epochs": 8}}
    assert find_result(workdir, other, override=True) is None
    write_json(
        workdir / CONFIG, other
    )  # the run has begun, its result is still to come
    assert find_result(workdir, other, override=False) is None
    assert json.loads((workdir / RESULT).read_text())["config"] == STORED
