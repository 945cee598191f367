"""Whole runs: what they leave behind, and how they are interrupted and go on."""

import dataclasses
import json
import math
import shutil

import jax
import numpy as np
import pytest

import upsilon_jax
from tests.training.tiny_run import (
    STEPS_PER_EPOCH,
    baseline,
    interrupt_after,
    tiny,
    watch,
    without_seconds,
)
from upsilon_jax.errors import ConfigError, WorkdirError
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.runtime.sharding import data_mesh
from upsilon_jax.training import loop
from upsilon_jax.training.progress import Progress, resume
from upsilon_jax.workdir.checkpoint import Checkpoint
from upsilon_jax.workdir.records import read
from upsilon_jax.workdir.schema import Entry, Labels, Manifest


@pytest.fixture(scope="module")
def resident(tmp_path_factory):
    return watch(tmp_path_factory.mktemp("resident"), resident=True)


@pytest.fixture(scope="module")
def streamed(tmp_path_factory):
    return watch(tmp_path_factory.mktemp("streamed"), resident=False)


@pytest.fixture(scope="module")
def uninterrupted(resident):
    return resident.result


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The workdir of a finished run of the baseline."""
    workdir = tmp_path_factory.mktemp("finished")
    upsilon_jax.train(baseline(), workdir)
    return workdir


def test_the_result_has_the_fixed_fields_and_is_plain_json(tmp_path, uninterrupted):
    result = uninterrupted
    assert result["status"] == "finished" and result["resumed_from"] == []
    assert result["seed"] == 0 and len(result["split_digest"]) == 64
    assert len(result["params_digest"]) == 64 and result["versions"]["jax"]
    assert [entry["epoch"] for entry in result["history"]] == [1, 2, 3, 4, 5, 6]
    last = [entry["accuracy"] for entry in result["history"][-2:]]
    assert result["accuracy"] == pytest.approx(np.mean(last))
    assert result["config"]["method"]["name"] == "upsilon"
    confusion = np.array(result["confusion"])
    assert confusion.shape == (10, 6) and confusion.sum() == 597  # all test digits
    assert 0 <= result["auroc"] <= 1 and result["imbalance"]["kl_ood"] >= 0
    json.dumps(result, allow_nan=False)


def test_pretraining_is_supervised_and_labels_come_after_it(uninterrupted):
    history = uninterrupted["history"]
    assert "unlabeled_loss" not in history[0] and "unlabeled_loss" not in history[1]
    assert "unlabeled_loss" in history[2]
    assert [entry["num_selected"] > 0 for entry in history] == [False] + [True] * 5
    refreshed = [entry["epoch"] for entry in history if "kl_ood" in entry]
    assert refreshed == [2, 4]
    assert [entry["epoch"] for entry in history if "num_changed" in entry] == [2, 4]
    assert history[1]["num_changed"] == history[1]["num_selected"]  # P was empty
    for entry in history[1:]:
        assert sum(entry["cluster_counts"]) == entry["num_explored"]
        assert 0 <= entry["explored_recall"] <= 1


def test_both_programs_are_traced_exactly_once(resident):
    programs = resident.run.programs
    assert programs.supervised.cache_size() == 1
    assert programs.semi_supervised.cache_size() == 1
    assert programs.refresh.cache_size() == 1


@pytest.mark.parametrize("images", ["resident", "streamed"])
def test_unlabeled_images_of_an_epoch_are_the_members_of_p(images, request):
    watched = request.getfixturevalue(images)
    run = watched.run
    assert len(watched.batches) == 4 * STEPS_PER_EPOCH
    for batch in watched.batches:
        pixels = run.source.read("train", run.splits.unlabeled[batch.index])
        np.testing.assert_array_equal(pixels, batch.unlabeled)
    for first in range(0, len(watched.batches), STEPS_PER_EPOCH):
        epoch = watched.batches[first : first + STEPS_PER_EPOCH]
        drawn = np.concatenate([batch.index for batch in epoch])
        assert set(drawn) == set(np.flatnonzero(watched.labels[first] >= 0))


@pytest.mark.parametrize(
    "looks",  # before a step, in a refresh, in an evaluation ...
    [4, 14, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 9, 17, 30))],
)
def test_a_run_interrupted_anywhere_ends_as_an_uninterrupted_one(
    tmp_path, monkeypatch, uninterrupted, looks
):
    with monkeypatch.context() as patch:
        interrupt_after(patch, looks)
        with pytest.raises(Interrupted):
            upsilon_jax.train(tiny(), tmp_path)
        assert not (tmp_path / "result.json").exists()
    assert_goes_on(tmp_path, uninterrupted)


def assert_goes_on(workdir, uninterrupted):
    result = upsilon_jax.train(tiny(), workdir)
    assert len(result["resumed_from"]) == 1
    assert result["params_digest"] == uninterrupted["params_digest"]
    assert without_seconds(result["history"]) == without_seconds(
        uninterrupted["history"]
    )


def test_ctrl_c_between_two_steps_saves_and_rises_again(
    tmp_path, monkeypatch, uninterrupted
):
    """As in a notebook, where nobody has installed a handler."""

    def interrupt(run, progress, *rest, original=loop._finish_epoch):
        if progress.epoch == 3:
            raise KeyboardInterrupt
        original(run, progress, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_finish_epoch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            upsilon_jax.train(tiny(), tmp_path)
    numbers = [int(path.name) for path in (tmp_path / "checkpoints").iterdir()]
    assert max(numbers) == 4 * STEPS_PER_EPOCH + 3  # after the steps of epoch 4
    assert_goes_on(tmp_path, uninterrupted)


def test_ctrl_c_in_the_middle_of_a_step_leaves_the_last_checkpoint(
    tmp_path, monkeypatch, uninterrupted, capsys
):
    """The step has taken the state's arrays away and not given new ones back."""

    def prepare(config, original=loop.prepare, **kwargs):
        run = original(config, **kwargs)

        def interrupted(state, *rest):
            taken = int(state.step)
            found = run.programs.semi_supervised(state, *rest)
            if taken == 4 * STEPS_PER_EPOCH + 1:
                raise KeyboardInterrupt
            return found

        return run._replace(programs=run.programs._replace(semi_supervised=interrupted))

    with monkeypatch.context() as patch:
        patch.setattr(loop, "prepare", prepare)
        with pytest.raises(KeyboardInterrupt):
            upsilon_jax.train(tiny(), tmp_path)
    said = capsys.readouterr().err
    assert "newest checkpoint" in said and "saved at" not in said
    assert_goes_on(tmp_path, uninterrupted)


def test_a_finished_run_is_not_run_again(finished, monkeypatch):
    monkeypatch.setattr(loop, "prepare", None)  # would fail if called
    stored = json.loads((finished / "result.json").read_text("utf-8"))
    assert upsilon_jax.train(baseline(), finished) == stored


def test_another_config_in_the_same_workdir_is_refused_with_its_differences(
    tmp_path, finished, monkeypatch
):
    workdir = shutil.copytree(finished, tmp_path / "run")
    changed = baseline(**{"train.epochs": 3, "train.report_epochs": 1})
    with pytest.raises(WorkdirError) as error:
        upsilon_jax.train(changed, workdir)
    assert "train.epochs: 2 → 3; train.report_epochs: 2 → 1" in str(error.value)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        with pytest.raises(Interrupted):
            upsilon_jax.train(changed, workdir, override_config=True)
    # The result that is there is still that of the old config.
    result = upsilon_jax.train(changed, workdir)
    assert result["resumed_from"][0] == 2 * STEPS_PER_EPOCH
    assert len(result["history"]) == 3


def test_divergence_is_a_result_with_its_step(tmp_path):
    config = baseline(**{"train.learning_rate": 1e30, "train.epochs": 4})
    (tmp_path / "unlabeled.csv").write_text("of an earlier config")
    result = upsilon_jax.train(config, tmp_path)
    assert result["status"] == "diverged"
    assert 1 <= result["diverged_step"] <= 4 * STEPS_PER_EPOCH
    assert upsilon_jax.train(config, tmp_path) == result
    assert not {"findings.npz", "unlabeled.csv"} & {p.name for p in tmp_path.iterdir()}


def test_the_baseline_is_the_same_whatever_the_unlabeled_images_are(tmp_path, finished):
    stored = json.loads((finished / "result.json").read_text("utf-8"))
    foreign = upsilon_jax.train(baseline(**{"data.mismatch": 1.0}), tmp_path)
    assert foreign["split_digest"] != stored["split_digest"]
    assert foreign["params_digest"] == stored["params_digest"]


def test_hidden_labels_are_used_for_diagnostics_only(
    tmp_path, monkeypatch, uninterrupted
):
    def shuffled(config, prepare=loop.prepare, **kwargs):
        run = prepare(config, **kwargs)
        classes = run.train_classes.copy()
        hidden = classes[run.splits.unlabeled]
        classes[run.splits.unlabeled] = np.random.default_rng(0).permutation(hidden)
        return run._replace(train_classes=classes)

    monkeypatch.setattr(loop, "prepare", shuffled)
    result = upsilon_jax.train(tiny(), tmp_path)
    assert result["params_digest"] == uninterrupted["params_digest"]
    assert result["history"] != uninterrupted["history"]  # ood_share did change


def test_streamed_images_give_the_same_run_bit_for_bit(streamed, uninterrupted):
    assert streamed.result["params_digest"] == uninterrupted["params_digest"]


@pytest.mark.slow
def test_masked_batches_pass_over_all_of_the_unlabeled_set(tmp_path):
    changes = {"data.pseudo_batches": "masked", "train.epochs": 3}
    seen = watch(tmp_path, resident=True, **changes)
    assert len(seen.batches) == STEPS_PER_EPOCH
    assert (seen.labels[0] < 0).any() and (seen.labels[0] >= 0).any()
    drawn = np.concatenate([batch.index for batch in seen.batches])
    np.testing.assert_array_equal(np.sort(drawn), np.arange(96))
    assert seen.run.programs.semi_supervised.cache_size() == 1
    assert math.isfinite(seen.result["history"][-1]["unlabeled_loss"])


@pytest.mark.slow
def test_without_any_pseudo_label_an_epoch_is_supervised(tmp_path, prepared):
    config = tiny("pl", **{"method.threshold": 1.0})
    result = upsilon_jax.train(config, tmp_path)
    assert prepared[0].programs.semi_supervised.cache_size() == 0
    assert result["history"][-1]["num_selected"] == 0
    baseline = upsilon_jax.train(tiny("baseline"), tmp_path / "baseline")
    # nothing selected: the very same weights as the baseline
    assert result["params_digest"] == baseline["params_digest"]


def test_progress_is_json_able_and_comes_back():
    entry = Entry(1, 3, {"loss": 0.25}, accuracy=0.5, labels=Labels(4, 3, 1, 1))
    progress = Progress("state", step=5, history=[entry], sums={"loss": 0.5})
    record = json.loads(json.dumps(progress.record()))
    back = resume(Checkpoint(6, "state", record))
    assert dataclasses.replace(back, resumed_from=[]) == progress
    assert back.resumed_from == [5] and progress.number == 6


def test_the_manifest_is_there_when_training_starts(tmp_path, monkeypatch):
    def stop(run, progress, *rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_train", stop)
    with pytest.raises(KeyboardInterrupt):
        upsilon_jax.train(tiny(), tmp_path)
    manifest = read(Manifest, tmp_path / "manifest.json")
    assert manifest.classes == list("012345") and manifest.ood_classes == list("6789")
    assert manifest.image_shape == [8, 8, 1] and len(manifest.mean) == 1
    assert (manifest.num_classes, manifest.num_clusters) == (6, 4)
    assert manifest.heads["logits"]["size"] == 10
    assert manifest.foreign_below == 0.3 and manifest.model["depth"] == 10
    assert manifest.data_digest and len(manifest.split_digest) == 64


def test_a_batch_that_the_devices_cannot_share_is_refused():
    mesh = data_mesh(jax.devices()[:3])
    with pytest.raises(ConfigError, match="size=32: must be a multiple of the 3 dev"):
        loop.prepare(tiny(), mesh=mesh)
