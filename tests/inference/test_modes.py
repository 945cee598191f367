"""predict, evaluate, export and report, as the command line has them."""

import csv
import hashlib
import json
import shutil

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    roc_auc_score,
)

import upsilon_jax
from upsilon_jax import command as main
from upsilon_jax import commandline
from upsilon_jax.inference.predictions import foreign
from upsilon_jax.runtime import interrupts
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.workdir import records
from upsilon_jax.workdir.schema import Manifest


@pytest.fixture
def told(run, capsys, monkeypatch):
    """Calls main.py with the run: (exit code, what it prints)."""
    monkeypatch.setattr(commandline, "set_up_process", lambda: None)

    def call(*args, workdir=run.workdir):
        argv = [*args, f"--workdir={workdir}"]
        code = commandline.call(main.COMMAND, main.main, argv)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return call


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_predictions_of_a_folder(run, told, folder, tmp_path):
    output = tmp_path / "a.csv"
    code, text = told("--mode=predict", f"--images={folder}", f"--output={output}")
    assert code == 0 and str(output) in text and "18 images" in text
    rows = read(output)
    assert list(rows[0]) == [
        "path",
        "class",
        "probability",
        "id_score",
        "foreign",
        "cluster",
    ]
    predicted = upsilon_jax.load(run.workdir)(folder)
    below = run.result.config["method"]["ood_threshold"]
    for row, path, name, score, cluster in zip(
        rows,
        predicted.path,
        predicted.class_name,
        predicted.id_score,
        predicted.cluster,
        strict=True,
    ):
        assert row["path"] == path and row["class"] == name
        assert float(row["id_score"]) == pytest.approx(score, rel=1e-5)
        assert row["foreign"] == str(int(score < below))
        assert row["cluster"] == ("" if cluster < 0 else str(cluster))
    listed = tmp_path / "a.skipped.txt"
    assert listed.read_text().startswith(f"{folder}/0/cut, off.jpg\t")
    assert told("--mode=predict", f"--images={folder}/1", f"--output={output}")[0] == 0
    assert not listed.exists() and len(read(output)) == 6


def test_an_earlier_list_that_cannot_be_removed_is_one_line(told, folder, tmp_path):
    (tmp_path / "a.skipped.txt").mkdir()
    args = ("--mode=predict", f"--images={folder}/1", f"--output={tmp_path}/a.csv")
    code, text = told(*args)
    assert code == 2 and "a.skipped.txt: cannot be removed" in text


def test_predictions_go_into_the_run_and_arrays_have_an_index(run, told, tmp_path):
    np.savez(tmp_path / "some, images.npz", x=run.images[:3])
    code, text = told("--mode=predict", f"--images={tmp_path}/some, images.npz")
    path = run.workdir / "predictions.csv"
    assert code == 0 and f"written to {path}" in text
    assert [row["index"] for row in read(path)] == ["0", "1", "2"]
    path.unlink()


def test_foreign_is_below_the_threshold_and_unknown_without_one():
    scores = np.array([0.1, 0.5, np.nan], np.float32)
    assert foreign(scores, 0.5) == [True, False, None]
    assert foreign(scores, None) == [None] * 3


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--mode=predict", "--images={tmp}"], "has no image to predict"),
        (["--mode=predict", "--images={tmp}/x"], "no such file or folder"),
        (["--mode=predict", "--images={run}/result.json"], "not an image"),
        (["--mode=predict", "--images={tmp}", "--output={tmp}"], "is a folder"),
        (["--mode=predict", "--images={tmp}", "--output={tmp}/a/b"], "no folder"),
        (["--mode=evaluate", "--images={tmp}"], "no sub-folder is called"),
        (["--mode=evaluate", "--images={tmp}/x"], "no such folder"),
        (["--mode=export", "--output={tmp}/a/b"], "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, told, tmp_path, args, line):
    code, text = told(*(arg.format(tmp=tmp_path, run=run.workdir) for arg in args))
    assert code == 2 and line in text and text.count("\n") == 1


def test_a_run_that_is_none_is_one_line(told, tmp_path):
    code, text = told("--mode=export", workdir=tmp_path)
    assert code == 2 and "is no run" in text and text.count("\n") == 1


def test_a_signal_leaves_nothing_behind(told, folder, tmp_path, monkeypatch):
    def check():
        raise Interrupted(2)

    monkeypatch.setattr(interrupts, "check", check)
    args = ("--mode=predict", f"--images={folder}", f"--output={tmp_path}/a.csv")
    code, text = told(*args)
    assert code == 130 and "stopped by SIGINT" in text
    assert not list(tmp_path.iterdir())


def test_evaluation_has_names_and_counts_other_folders_as_foreign(
    run, told, folder, tmp_path
):
    output = tmp_path / "found.json"
    code, text = told("--mode=evaluate", f"--images={folder}", f"--output={output}")
    assert code == 0 and "9 (foreign)" in text and "cut, off.jpg" in text
    found = json.loads(output.read_text())
    predicted = upsilon_jax.load(run.workdir)(folder)
    truth = np.array([int(path.split("/")[-2]) for path in predicted.path])
    known = truth < 6
    counts = [found[f"num_{kind}"] for kind in ("images", "foreign", "skipped")]
    assert counts == [12, 6, 1] and found["foreign"] == ["9"]
    right = (predicted.label == truth)[known]
    assert found["accuracy"] == right.mean() and f"{right.mean():.2%}" in text
    assert found["class_accuracy"][0] == (predicted.label[truth == 0] == 0).mean()
    assert found["class_accuracy"][2] is None and found["class_images"][2] == 0
    assert np.sum(found["confusion"][6]) == found["num_foreign"]
    # As few images as these have different scores, so ranks are those of the log-odds.
    expected = roc_auc_score(known, predicted.id_score)
    assert found["auroc"] == pytest.approx(expected)
    expected = average_precision_score(known, predicted.id_score)
    assert found["aupr"] == pytest.approx(expected) and "AUPR" in text
    below = records.read(Manifest, run.workdir / "manifest.json").foreign_below
    named = np.where(predicted.id_score < below, 6, predicted.label)
    expected = balanced_accuracy_score(np.minimum(truth, 6), named)
    assert found["balanced_accuracy"] == pytest.approx(expected)


def test_export_writes_exactly_the_output(run, told, folder, tmp_path):
    output = tmp_path / "named as I like.bin"
    code, text = told("--mode=export", f"--output={output}")
    assert code == 0 and str(output) in text
    assert [file.name for file in tmp_path.iterdir()] == [output.name]
    code, text = told("--mode=predict", f"--images={folder}", workdir=output)
    assert code == 0 and len(read(tmp_path / "predictions.csv")) == 18
    code, text = told("--mode=export", workdir=output)
    assert code == 2 and "takes the run itself" in text


def test_report_makes_what_the_run_shows_to_people(run, told, tmp_path):
    copy = shutil.copytree(run.workdir, tmp_path / "copy")
    shown = [copy / name for name in ("report.html", "curves.png")]
    for path in shown:
        path.unlink()
    code, text = told("--mode=report", workdir=copy)
    assert code == 0 and f"written to {copy / 'report.html'}" in text
    listed = (copy / "SHA256SUMS").read_text()
    for path in shown:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert f"{digest}  {path.name}\n" in listed
