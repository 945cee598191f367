import csv

import numpy as np
import pytest

from tests.report.page.example_run import make_findings, make_manifest
from upsilon_jax.report.page.unlabeled import write_unlabeled


def written(tmp_path, findings, manifest):
    write_unlabeled(tmp_path / "unlabeled.csv", findings, manifest)
    with open(tmp_path / "unlabeled.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def findings():
    return make_findings(num_unlabeled=30)


def test_every_image_of_the_heap_has_a_row_in_its_order(tmp_path, findings):
    rows = written(tmp_path, findings, make_manifest())
    seen, names = findings.unlabeled, ["cat", "dog", "cow", "car", "boat"]
    labels = [*names[:3], "cluster 0", "cluster 1", ""]
    assert list(rows[0]) == (
        "index class probability id_score foreign cluster pseudo_label truth".split()
    )
    assert len(rows) == 30
    for i, row in enumerate(rows):
        assert row["index"] == str(i) and row["class"] == names[seen.label[i]]
        assert float(row["probability"]) == pytest.approx(seen.probability[i])
        assert float(row["id_score"]) == pytest.approx(seen.id_score[i])
        assert row["foreign"] == str(int(seen.id_score[i] < 0.3))
        assert row["cluster"] == (str(seen.cluster[i]) if seen.cluster[i] >= 0 else "")
        assert row["pseudo_label"] == labels[findings.pseudo_label[i]]
        assert row["truth"] == names[seen.truth[i]]
    for column in ("foreign", "cluster", "pseudo_label"):  # all kinds occurred
        assert len({row[column] for row in rows}) > 1


def test_what_nobody_knows_is_empty_or_absent(tmp_path, findings):
    unlabeled = findings.unlabeled._replace(
        truth=np.full(30, -1, np.int32),
        path=np.array([f"heap/{i}.png" for i in range(30)]),
    )
    manifest = make_manifest(foreign_below=None)
    rows = written(tmp_path, findings._replace(unlabeled=unlabeled), manifest)
    assert "truth" not in rows[0] and "index" not in rows[0]
    assert rows[7]["path"] == "heap/7.png"
    assert {row["foreign"] for row in rows} == {""}


def test_a_method_without_clusters_leaves_them_empty(tmp_path):
    found = make_findings(num_clusters=0, num_unlabeled=30)
    found = found._replace(pseudo_label=np.full(30, -1, np.int32))
    rows = written(tmp_path, found, make_manifest(num_clusters=0, foreign_below=None))
    assert {row["cluster"] for row in rows} == {""}
    assert {row["pseudo_label"] for row in rows} == {""}
