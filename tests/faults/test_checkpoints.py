"""Nothing that was saved is lost, or taken for something that it is not."""

import inspect
import json
import re
import shutil
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import pytest

import upsilon_jax
from tests.training.tiny_run import baseline, interrupt_after
from tests.workdir.test_checkpoint import flip_a_bit, restore, save_steps, state
from upsilon_jax.config import FIELDS, Schedule, may_change
from upsilon_jax.errors import WorkdirError
from upsilon_jax.methods import METHODS
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.training.loop import _set_aside_together
from upsilon_jax.training.progress import Progress, check_fits
from upsilon_jax.workdir.checkpoint import (
    Checkpoints,
    clear_unfinished,
    restore_part,
)
from upsilon_jax.workdir.files import CONFIG, find_result, write_json
from upsilon_jax.workdir.saved import has_saved, set_run_aside

pytestmark = pytest.mark.usefixtures("no_tensorboard")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def record_file(workdir, number):
    return workdir / "checkpoints" / str(number) / "record" / "metadata"


def test_with_all_checkpoints_damaged_it_is_refused_every_time(tmp_path):
    save_steps(tmp_path, [3, 7])
    for number in (3, 7):
        flip_a_bit(tmp_path / "checkpoints" / str(number))
    for _ in range(3):
        with pytest.raises(WorkdirError, match="3 cannot be used.*--start_over"):
            restore(tmp_path)
        assert names(tmp_path / "checkpoints") == ["3", "7"]


@pytest.mark.parametrize("folder", ["3", ""])
def test_a_workdir_whose_checkpoints_are_gone_does_not_look_new(tmp_path, folder):
    save_steps(tmp_path, [3])
    shutil.rmtree(tmp_path / "checkpoints" / folder)
    assert has_saved(tmp_path)
    with pytest.raises(WorkdirError, match="has saved checkpoints.*--start_over"):
        restore(tmp_path)


def test_start_over_keeps_the_earlier_runs_and_begins_anew(tmp_path):
    assert set_run_aside(tmp_path) is None
    for earlier in ("earlier", "earlier_2"):
        save_steps(tmp_path, [3])
        (tmp_path / "config.json").write_text("{}")
        _set_aside_together(tmp_path)
        assert not has_saved(tmp_path) and restore(tmp_path) == (None, [])
        assert (tmp_path / earlier / "config.json").exists()
        assert restore(tmp_path / earlier)[0].number == 3


@pytest.mark.parametrize("start_over", [False, True])
def test_a_run_that_is_stopped_says_how_it_goes_on(
    tmp_path, monkeypatch, capsys, start_over
):
    interrupt_after(monkeypatch, 5)
    with pytest.raises(Interrupted):
        upsilon_jax.train(baseline(), tmp_path, start_over=start_over)
    again = "the same command" + (" without --start_over" if start_over else "")
    assert f"; {again} goes on there" in capsys.readouterr().err


def test_a_sound_checkpoint_of_another_shape_is_a_line_and_stays_where_it_is(tmp_path):
    save_steps(tmp_path, [3, 7])
    flip_a_bit(tmp_path / "checkpoints" / "7")
    checkpoints = Checkpoints(tmp_path, keep=5)
    wider = {**state(0), "params": jnp.zeros((64, 33))}
    told = r"\['params'\] is float32 \[64, 32\] there and float32 \[64, 33\] here"
    with pytest.raises(WorkdirError, match=told):
        checkpoints.restore(wider)
    checkpoints.close()
    assert names(tmp_path / "checkpoints") == ["3", "7"]
    assert restore(tmp_path)[0].number == 3


def change(sealed, path, value):
    *parents, last = path.split("/")
    for name in parents:
        sealed = sealed[name]
    sealed[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("record/history", [8]),
        ("record/step", 3),
        ("digests/params", "0" * 64),
        ("arrays/['params']", "float32 [1]"),
        ("number", 3),
        ("digest", None),
    ],
)
def test_a_record_that_was_changed_is_passed_over(tmp_path, path, value):
    save_steps(tmp_path, [3, 7])
    file = record_file(tmp_path, 7)
    sealed = json.loads(file.read_text())
    change(sealed, path, value)
    file.write_text(json.dumps(sealed))
    _, complaints = restore_part(tmp_path, "params", state(0)["params"])
    assert len(complaints) == 1 and "checkpoint 7 cannot be used" in complaints[0]
    checkpoint, complaints = restore(tmp_path)
    assert checkpoint.number == 3 and checkpoint.record == {"history": [3]}
    assert len(complaints) == 1 and names(tmp_path / "corrupt") == ["7"]


def test_a_checkpoint_without_checksum_is_never_used_unverified(tmp_path):
    save_steps(tmp_path, [3])
    record_file(tmp_path, 3).write_text(json.dumps({"history": [3]}))
    for read in (restore, lambda d: restore_part(d, "params", state(0)["params"])):
        with pytest.raises(WorkdirError, match="its record has no checksum"):
            read(tmp_path)
    assert names(tmp_path / "checkpoints") == ["3"]


def test_a_checkpoint_under_another_number_is_not_used(tmp_path):
    save_steps(tmp_path, [3, 7])
    shutil.copytree(tmp_path / "checkpoints" / "3", tmp_path / "checkpoints" / "9")
    checkpoint, complaints = restore(tmp_path)
    assert checkpoint.number == 7 and "it was saved as number 3" in complaints[0]


def test_damaged_ones_of_the_same_number_are_all_kept(tmp_path):
    save_steps(tmp_path, [3])
    for _ in range(2):
        save_steps_on(tmp_path, 7)
        flip_a_bit(tmp_path / "checkpoints" / "7")
        assert restore(tmp_path)[0].number == 3
    assert names(tmp_path / "corrupt") == ["7", "7_2"]


def save_steps_on(workdir, step):
    checkpoints = Checkpoints(workdir, keep=5)
    checkpoints.save(step, state(step), {"history": [step]})
    checkpoints.close()


def test_a_fault_of_the_program_while_saving_keeps_its_traceback(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=5)
    saving = mock.patch.object(checkpoints._manager, "save")
    with saving as save:
        save.side_effect = ValueError("a bug")
        with pytest.raises(ValueError, match="a bug"):
            checkpoints.save(1, state(1), {})
        full = "RESOURCE_EXHAUSTED: Failed to write [os_error_code='28']"
        save.side_effect = ValueError(full)  # as tensorstore says it
        told = r"cannot save \(No space left on device\)"
        with pytest.raises(WorkdirError, match=told):
            checkpoints.save(1, state(1), {})


def test_a_first_save_that_failed_does_not_count_as_one(tmp_path):
    """A disk that was full has nothing to restore when it has room again."""
    checkpoints = Checkpoints(tmp_path, keep=5)
    with mock.patch.object(checkpoints._manager, "save"):  # it never ends
        checkpoints.save(1, state(1), {})
    checkpoints.close()
    assert not has_saved(tmp_path) and restore(tmp_path) == (None, [])


def test_what_a_killed_save_left_behind_is_cleared(tmp_path):
    save_steps(tmp_path, [3])
    left = tmp_path / "checkpoints" / "7.orbax-checkpoint-tmp" / "state"
    left.mkdir(parents=True)
    (left / "d").write_bytes(b"half")
    clear_unfinished(tmp_path)
    assert names(tmp_path / "checkpoints") == ["3"]


STORED = {
    "data": {"name": "digits", "mismatch": 0.5},
    "model": {"width": 1},
    "train": {"epochs": 6, "batch_size": 32},
    "method": {"name": "upsilon", "threshold": 0.9, "num_clusters": 4},
}


@pytest.mark.parametrize(
    "field",
    [
        "data.mismatch",
        "model.width",
        "train.batch_size",
        "method.name",
        "method.num_clusters",
    ],
)
def test_override_config_refuses_what_cannot_change_under_a_checkpoint(tmp_path, field):
    asked = json.loads(json.dumps(STORED))
    section, name = field.split(".")
    asked[section][name] = "other"
    write_json(tmp_path / CONFIG, STORED)
    assert find_result(tmp_path, asked, override=True) is None  # nothing is saved yet
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    with pytest.raises(WorkdirError) as error:
        find_result(tmp_path, asked, override=True)
    assert re.search(rf"{field}: .* → 'other'", str(error.value))
    assert "may change data.augmentation" in str(error.value)


def test_override_config_goes_on_with_what_may_change(tmp_path):
    asked = json.loads(json.dumps(STORED))
    asked["train"].update(epochs=9, new_field=1)  # which the stored version had not
    asked["method"].update(threshold=0.8)
    write_json(tmp_path / CONFIG, STORED)
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    assert find_result(tmp_path, asked, override=True) is None
    with pytest.raises(WorkdirError, match="--override_config to go on"):
        find_result(tmp_path, asked, override=False)


def test_what_decides_the_arrays_or_the_steps_may_not_change():
    fixed = {field for field in FIELDS if not may_change(field)}
    assert fixed >= {"seed", "model.depth", "model.width", "train.batch_size"}
    assert fixed >= {"data.unlabeled_ratio", "train.optimizer", "train.weight_decay"}
    assert not fixed & {"train.epochs", "train.learning_rate", "data.data_dir"}
    assert may_change("method.upsilon.threshold")
    assert not may_change("method.upsilon.num_clusters")
    assert may_change("method.ood_threshold", 0.3, 0.4)
    assert not may_change("method.ood_threshold", 0.3, "auto")
    assert may_change("train.lr_schedule", "step", "cosine")
    assert not may_change("train.lr_schedule", "step", "constant")
    assert not may_change("data.id_classes", ["0", "1"], ("0", "2"))


@pytest.mark.parametrize("name", METHODS)
def test_what_may_change_of_a_method_leaves_its_arrays(name):
    fields = dict(inspect.signature(METHODS[name]).parameters)
    needed = {"num_classes": 3, "num_ood_classes": 2}
    fixed = {field: needed[field] for field in needed if field in fields}

    def arrays(**changed):
        method, weights = METHODS[name](**fixed, **changed), {"w": jnp.zeros((2, 3))}
        state = partial(method.init, num_unlabeled=8, hidden=jnp.arange(8) % 5)
        return method.heads, jax.eval_shape(state, jax.random.key(0), weights)

    for field, parameter in fields.items():
        if type(parameter.default) is int and may_change(f"method.{field}"):
            assert arrays(**{field: parameter.default + 1}) == arrays(), field


def test_a_run_cannot_become_shorter_than_it_is(tmp_path):
    schedule = Schedule(3, 2, 0, None, 1, 1, 1)  # two epochs of three steps
    check_fits(Progress(None, step=6), schedule, tmp_path)
    with pytest.raises(WorkdirError, match="more than the 6 of train.epochs=2"):
        check_fits(Progress(None, step=7), schedule, tmp_path)


@pytest.mark.slow
def test_a_refused_run_leaves_config_and_checkpoints_as_they_were(
    tmp_path, monkeypatch
):
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 5)
        upsilon_jax.train(baseline(), tmp_path)
    files = lambda: {
        path: path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and path.name != ".lock"
    }
    before = files()
    with monkeypatch.context() as patch:
        # a network of another shape that the config does not tell of
        patch.setattr("upsilon_jax.config.changes._CHANGEABLE", {"model.width"})
        wider = baseline(**{"model.width": 2})
        with pytest.raises(WorkdirError, match="a run with other arrays: .params"):
            upsilon_jax.train(wider, tmp_path, override_config=True)
    (tmp_path / "manifest.json").rename(tmp_path / "kept")
    with pytest.raises(WorkdirError, match=r"manifest.json: is missing"):
        upsilon_jax.train(baseline(), tmp_path)
    (tmp_path / "kept").rename(tmp_path / "manifest.json")
    assert files() == before
    assert upsilon_jax.train(baseline(), tmp_path)["resumed_from"]
    again = upsilon_jax.train(baseline(), tmp_path, start_over=True)
    assert not again["resumed_from"] and (tmp_path / "earlier/result.json").exists()
