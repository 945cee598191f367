import numpy as np
import pytest

from tests.report.page.example_run import make_findings, make_manifest, make_seen
from upsilon_jax.report.page.gallery import make_gallery, wanted_rows

N = 90


@pytest.fixture(scope="module")
def findings():
    return make_findings(num_unlabeled=N)


@pytest.fixture(scope="module")
def gallery(findings):
    return make_gallery(findings, make_manifest())


def test_the_surest_of_a_class_are_ranked_by_log_odds(findings, gallery):
    assert [sheet.kind for sheet in gallery.surest] == [0, 1, 2]
    seen = findings.unlabeled
    for sheet in gallery.surest:
        odds = seen.log_odds[sheet.rows]
        assert np.all(seen.label[sheet.rows] == sheet.kind)
        assert np.all(np.diff(odds) <= 0)
        members = (seen.label == sheet.kind) & (seen.cluster < 0)
        assert odds[0] == seen.log_odds[members].max()
        assert sheet.size == members.sum()


def test_a_group_shows_its_typical_members_and_knows_its_size(findings, gallery):
    cluster = findings.unlabeled.cluster
    assert [s.size for s in gallery.groups] == sorted(
        np.bincount(cluster[cluster >= 0]), reverse=True
    )
    sheet = gallery.groups[0]
    members = np.flatnonzero(cluster == sheet.kind)
    features = findings.features[members].astype(float)
    typical = members[np.linalg.norm(features - features.mean(0), axis=1).argmin()]
    assert sheet.rows[0] == typical
    assert np.all(cluster[sheet.rows] == sheet.kind)


def test_the_most_foreign_have_the_least_confidence(findings, gallery):
    (sheet,) = gallery.foreign
    odds = findings.unlabeled.log_odds
    np.testing.assert_array_equal(sheet.rows, np.argsort(odds)[: len(sheet.rows)])


def test_the_doubtful_look_like_the_classes_and_are_torn(findings, gallery):
    (sheet,) = gallery.doubtful
    seen = findings.unlabeled
    assert np.all(seen.id_score[sheet.rows] >= 0.3)
    ordered = np.sort(seen.logits[:, :3], axis=1)
    margin = ordered[:, 2] - ordered[:, 1]
    assert np.all(np.diff(margin[sheet.rows]) >= 0)
    assert margin[sheet.rows[0]] == margin[seen.id_score >= 0.3].min()


def test_mistakes_are_test_images_of_the_classes(findings, gallery):
    (sheet,) = gallery.mistakes
    test, rows = findings.test, sheet.rows - N
    assert np.all(test.truth[rows] < 3)
    assert np.all(test.truth[rows] != test.label[rows])
    assert np.all(np.diff(test.log_odds[rows]) <= 0)
    assert sheet.size == np.sum((test.truth < 3) & (test.truth != test.label))


def test_what_is_wanted_is_all_that_is_shown(findings, gallery):
    wanted = wanted_rows(findings, make_manifest())
    shown = {row for section in gallery for sheet in section for row in sheet.rows}
    assert wanted.dtype == np.int64
    assert wanted.tolist() == sorted(shown)


@pytest.mark.parametrize("num_classes, num_clusters", [(2, 1), (100, 50), (300, 200)])
def test_there_are_never_too_many(num_classes, num_clusters):
    found = make_findings(
        num_classes=num_classes,
        num_clusters=num_clusters,
        num_unlabeled=4000,
        num_test=900,
    )
    manifest = make_manifest(["x"] * num_classes, num_clusters=num_clusters)
    assert 100 < len(wanted_rows(found, manifest)) <= 400


def test_a_picture_is_not_shown_twice_in_a_sheet(findings):
    """Every image three times over: the sheets have each but once."""
    thrice = lambda array: np.repeat(array, 3, axis=0)
    copies = findings._replace(
        unlabeled=type(findings.unlabeled)(*map(thrice, findings.unlabeled)),
        features=thrice(findings.features),
    )
    gallery = make_gallery(copies, make_manifest())
    for sheet in (*gallery.surest, *gallery.groups, *gallery.foreign):
        assert len(sheet.rows) > 1
        assert len(set(sheet.rows // 3)) == len(sheet.rows)


def test_what_is_missing_is_left_out():
    """No clusters, no test images, features too large for float16, a broken row."""
    found = make_findings(num_clusters=0, num_test=0)
    logits = found.unlabeled.logits.copy()
    logits[7] = np.nan
    seen = make_seen(logits, found.unlabeled.truth, 3)
    features = np.full((90, 4), np.inf, np.float16)
    found = found._replace(unlabeled=seen, features=features)
    gallery = make_gallery(found, make_manifest(num_clusters=0, foreign_below=None))
    assert not gallery.groups and not gallery.mistakes
    assert 7 not in gallery.foreign[0].rows and 7 not in gallery.doubtful[0].rows
    assert gallery.surest


def test_an_empty_heap_shows_nothing():
    found = make_findings(num_unlabeled=0, num_test=0)
    assert wanted_rows(found, make_manifest()).tolist() == []
