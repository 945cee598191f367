"""A run goes on only with the data it began with; a finished one needs none."""

import json
import shutil
import types

import pytest

import upsilon_jax
from configs import folder
from tests.data.photo_folder import save_photo, save_photos
from tests.report.page.example_run import make_manifest
from tests.training.tiny_run import interrupt_after, tiny
from tests.workdir.test_checkpoint import flip_a_bit
from upsilon_jax.errors import DataError, WorkdirError
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.training import loop
from upsilon_jax.training.manifest import check_unchanged
from upsilon_jax.workdir.files import MANIFEST, PHOTOS, write_json


@pytest.fixture
def photos(tmp_path):
    return save_photos(tmp_path / "photos")


def config_of(photos):
    config = folder.get_config("baseline")
    for part in ("labeled", "unlabeled", "test"):
        config.data[part] = str(photos / part)
    config.data.augmentation = "none"
    config.model.update(depth=10, width=1)
    config.train.update(epochs=3, batch_size=4)
    return config


def stop(config, workdir):
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 8)  # looks while images are read, too
        upsilon_jax.train(config, workdir)


def contents(workdir):
    return {
        name: (workdir / name).read_bytes()
        for name in ("config.json", "manifest.json", "photos.json.gz")
    }


def test_changed_photos_are_refused_restored_ones_go_on_and_in_the_end_none_are_needed(
    photos, tmp_path
):
    workdir, config = tmp_path / "run", config_of(photos)
    stop(config, workdir)
    before = contents(workdir)
    save_photo(photos / "unlabeled" / "new.png", 999)
    save_photo(photos / "unlabeled" / "3.png", 998)
    (photos / "labeled" / "a" / "0.png").unlink()
    with pytest.raises(DataError) as error:
        upsilon_jax.train(config, workdir, override_config=True)
    for told in (
        f"1 added ({photos}/unlabeled/new.png)",
        f"1 removed ({photos}/labeled/a/0.png)",
        f"1 replaced ({photos}/unlabeled/3.png)",
        "restore them to go on, or give another --workdir",
    ):
        assert told in str(error.value)
    assert contents(workdir) == before

    (photos / "unlabeled" / "new.png").unlink()
    save_photo(photos / "unlabeled" / "3.png", 203)
    save_photo(photos / "labeled" / "a" / "0.png", 0)
    result = upsilon_jax.train(config, workdir)
    assert result["status"] == "finished" and len(result["resumed_from"]) == 1

    shutil.rmtree(photos)
    assert upsilon_jax.train(config, workdir) == result  # sizes are left open in it
    config.train.batch_size = 2
    with pytest.raises(WorkdirError, match="train.batch_size: 4 → 2"):
        upsilon_jax.train(config, workdir)


def test_a_run_that_is_refused_lists_no_files_that_it_left_out(photos, tmp_path):
    workdir, config = tmp_path / "run", config_of(photos)
    stop(config, workdir)
    (photos / "unlabeled" / "bad.png").write_bytes(b"no image")
    for checkpoint in (workdir / "checkpoints").iterdir():
        flip_a_bit(checkpoint)
    with pytest.raises(WorkdirError, match="no checkpoint can be used"):
        upsilon_jax.train(config, workdir)
    assert not (workdir / "skipped.txt").exists()


NO_PHOTOS = [None, 3, "x", list(range(1000)), {"a.png": 1}, {"a.png": ["x"]}]


@pytest.mark.parametrize("value", NO_PHOTOS, ids=lambda value: f"{value}"[:20])
def test_a_list_of_photos_that_is_none_is_one_line(tmp_path, value):
    manifest = make_manifest(data_digest={"all": "0", "train": "0"})
    write_json(tmp_path / MANIFEST, manifest)
    write_json(tmp_path / PHOTOS, value)
    now = manifest._replace(data_digest={"all": "1", "train": "1"})
    source = types.SimpleNamespace(paths=None, contents=None)
    told = "photos.json.gz: does not list photos: 'photos' must be"
    with pytest.raises(WorkdirError, match=told) as error:
        check_unchanged(tmp_path, now, source)
    assert len(str(error.value)) < 400


def test_another_split_or_other_data_are_refused_on_resume(tmp_path, monkeypatch):
    stop(tiny("baseline"), tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    with monkeypatch.context() as patch:  # as another version may do it
        patch.setattr("upsilon_jax.training.manifest.digest", lambda splits: "other")
        with pytest.raises(WorkdirError, match="another choice among these images"):
            upsilon_jax.train(tiny("baseline"), tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text("utf-8")) == manifest

    def prepare(config, original=loop.prepare, **kwargs):
        run = original(config, **kwargs)
        labels = run.source.test_labels.copy()
        labels[0] += 1
        return run._replace(source=run.source._replace(test_labels=labels))

    monkeypatch.setattr(loop, "prepare", prepare)
    with pytest.raises(DataError, match="changed are test; restore them"):
        upsilon_jax.train(tiny("baseline"), tmp_path)


def test_a_photo_that_vanishes_while_it_is_streamed_is_one_line(photos, tmp_path):
    config = config_of(photos)
    config.data.residency = "stream"

    def train_epoch(run, progress, *rest, original=loop.train_epoch):
        shutil.rmtree(photos / "labeled")
        original(run, progress, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "train_epoch", train_epoch)
        with pytest.raises(DataError, match=r"labeled/.*\.png: .*No such file"):
            upsilon_jax.train(config, tmp_path / "run")
