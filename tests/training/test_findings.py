"""What a finished run leaves for people, and that a killed one leaves it too."""

import json
import shutil

import numpy as np
import pytest

import upsilon_jax
from tests.training.tiny_run import tiny
from upsilon_jax.inference import metrics
from upsilon_jax.report.open_set import measure_open_set
from upsilon_jax.report.page.workdir_files import remake
from upsilon_jax.training import ending
from upsilon_jax.workdir import findings, records
from upsilon_jax.workdir.schema import Manifest

CONFIG = {"train.epochs": 3}
MADE = ("curves.png", "unlabeled.csv", "label_next.csv", "report.html")


class Killed(BaseException):
    """Nothing is done about it."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A workdir whose process ended between `findings.npz` and the files after it."""
    workdir = tmp_path_factory.mktemp("killed")

    def die(*_):
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ending, "write_all", die)
        with pytest.raises(Killed):
            upsilon_jax.train(tiny(**CONFIG), workdir)
    return workdir


@pytest.fixture(scope="module")
def finished(killed, tmp_path_factory):
    """The workdir after the same command again."""
    workdir = tmp_path_factory.mktemp("finished") / "run"
    shutil.copytree(killed, workdir)
    upsilon_jax.train(tiny(**CONFIG), workdir)
    return workdir


@pytest.fixture(scope="module")
def found(finished):
    return findings.load(finished / "findings.npz")


def result_of(workdir):
    return json.loads((workdir / "result.json").read_text("utf-8"))


def test_a_run_killed_before_its_result_is_finished_by_the_same_command(
    killed, finished
):
    left = {path.name for path in killed.iterdir()}
    assert "findings.npz" in left and not {"result.json", *MADE} & left
    result = result_of(finished)
    assert result["status"] == "finished" and result["resumed_from"] == [9]
    assert [entry["epoch"] for entry in result["history"]] == [1, 2, 3]
    for name in MADE:
        assert (finished / name).stat().st_size
    before, after = (findings.load(w / "findings.npz") for w in (killed, finished))
    for one, other in zip(
        [*before.unlabeled, *before.test, *before[2:]],
        [*after.unlabeled, *after.test, *after[2:]],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_findings_are_what_the_result_was_measured_on(finished, found):
    result, num_classes = result_of(finished), 6
    assert len(found.unlabeled.index) == 96 and len(found.test.index) == 597
    assert found.features.dtype == found.test_features.dtype == np.float16
    assert (len(found.features), len(found.test_features)) == (96, 597)
    confusion = metrics.confusion(found.test.logits, found.test.truth, num_classes, 10)
    assert confusion.tolist() == result["confusion"]
    manifest = records.read(Manifest, finished / "manifest.json")
    measured = measure_open_set(found.test, num_classes, manifest.foreign_below)
    assert result["open_set"] == measured._asdict()
    unseen = {name for name in measured._fields if name.startswith("unseen_")}
    assert {k for k, v in result["open_set"].items() if v is None} == unseen
    known = found.test.truth < num_classes
    right = found.test.label[known] == found.test.truth[known]
    assert right.mean() == pytest.approx(result["history"][-1]["accuracy"])
    last = result["history"][-1]
    assert (found.pseudo_label >= 0).sum() == last["num_selected"] > 0
    counts = np.bincount(found.pseudo_label + 1, minlength=11)[7:]
    assert counts.tolist() == last["cluster_counts"]


def test_shown_images_have_their_picture(found):
    source = upsilon_jax.data.load_source("digits")
    assert len(found.thumbnail_of) == len(found.thumbnails) > 20
    of_heap = found.thumbnail_of < 96
    heap, test = found.thumbnail_of[of_heap], found.thumbnail_of[~of_heap] - 96
    np.testing.assert_array_equal(
        found.thumbnails[of_heap], source.read("train", found.unlabeled.index[heap])
    )
    np.testing.assert_array_equal(
        found.thumbnails[~of_heap], source.read("test", found.test.index[test])
    )
    truth = np.array([source.train_labels[i] for i in found.unlabeled.index])
    np.testing.assert_array_equal(truth, found.unlabeled.truth)  # digits 0..9 in order


def test_all_but_the_findings_can_be_made_again(finished, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(finished, workdir)
    for name in MADE:
        (workdir / name).unlink()
    shutil.rmtree(workdir / "checkpoints")
    remake(workdir)
    for name in MADE:
        assert (workdir / name).read_bytes() == (finished / name).read_bytes()


def test_the_manifest_decides_what_is_foreign(finished, found):
    manifest = records.read(Manifest, finished / "manifest.json")
    lines = (finished / "unlabeled.csv").read_text("utf-8").splitlines()
    column = lines[0].split(",").index("foreign")
    foreign = [line.split(",")[column] == "1" for line in lines[1:]]
    expected = found.unlabeled.id_score < manifest.foreign_below
    np.testing.assert_array_equal(foreign, expected)
