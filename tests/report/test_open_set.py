"""What others measure, against scikit-learn and by brute force."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    roc_auc_score,
    roc_curve,
)

from tests.workdir.test_schema import make_result
from upsilon_jax.inference.predicted import columns
from upsilon_jax.report import open_set
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.workdir.findings import Seen
from upsilon_jax.workdir.schema import OpenSet


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def seen(logits, truth, num_classes):
    count = len(truth)
    return Seen(
        index=np.arange(count),
        path=np.full(count, ""),
        truth=np.asarray(truth, np.int32),
        logits=np.asarray(logits, np.float32),
        **columns(logits, num_classes)._asdict(),
    )


def test_auroc_agrees_with_scikit_learn_and_splits_ties(rng):
    score = rng.integers(8, size=300).astype(float)  # many ties
    positive = rng.random(300) < 0.3
    expected = roc_auc_score(positive, score)
    assert open_set.auroc(score, positive) == pytest.approx(expected, abs=1e-12)
    assert open_set.auroc(score, np.zeros(300, bool)) is None
    assert open_set.auroc(np.ones(4), np.array([True, False, True, False])) == 0.5


@pytest.mark.parametrize("num_scores", [8, 10**6])  # with and without ties
@pytest.mark.parametrize("count", [19, 20, 21, 300])
def test_separation_agrees_with_scikit_learn(rng, count, num_scores):
    score = rng.integers(num_scores, size=count).astype(float)
    positive = rng.random(count) < 0.4
    found = open_set.aupr(score, positive)
    expected = average_precision_score(positive, score)
    assert found == pytest.approx(expected, abs=1e-12)
    rate, passing, _ = roc_curve(positive, score, drop_intermediate=False)
    expected = rate[passing >= 0.95].min()
    assert open_set.fpr95(score, positive) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("positive", [np.zeros(3, bool), np.ones(3, bool)])
def test_one_kind_alone_cannot_be_separated(positive):
    for measure in (open_set.auroc, open_set.fpr95, open_set.aupr):
        assert measure(np.arange(3.0), positive) is None


def test_balanced_accuracy_has_all_foreign_images_as_one_class(rng):
    truth, label = rng.integers(7, size=200), rng.integers(3, size=200)
    foreign = rng.random(200) < 0.5
    expected = balanced_accuracy_score(
        np.minimum(truth, 3), np.where(foreign, 3, label)
    )
    found = open_set.balanced_accuracy(label, foreign, truth, 3)
    assert found == pytest.approx(expected, abs=1e-12)
    # An ID class without an image is left out; without foreign ones it is not measured.
    assert open_set.balanced_accuracy(
        np.array([0, 0, 0]), np.array([False, True, False]), np.array([0, 3, 4]), 2
    ) == pytest.approx((1 + 0.5) / 2)
    assert open_set.balanced_accuracy(label, foreign, truth % 3, 3) is None


@pytest.mark.parametrize("num_outputs", [4, 5, 7])  # fewer, as many, more than classes
def test_the_matching_is_the_best_of_all(rng, num_outputs):
    truth, chosen = rng.integers(5, size=60), rng.integers(num_outputs, size=60)
    chosen = np.where(rng.random(60) < 0.4, truth % num_outputs, chosen)
    found = open_set.matched_accuracies(chosen, truth, 3, num_outputs)
    names = [*range(5), *[-1] * max(num_outputs - 5, 0)]  # -1: an output of no class
    maps = set(itertools.permutations(names, num_outputs))
    best = max((np.array(m)[chosen] == truth).mean() for m in maps)
    assert found["accuracy_all"] == pytest.approx(best, abs=1e-12)
    new = (truth >= 3).mean()
    parts = (1 - new) * found["accuracy_old"] + new * found["accuracy_new"]
    assert parts == pytest.approx(best, abs=1e-12)


def test_matched_accuracies_by_hand():
    truth = np.array([0, 0, 1, 1, 2, 2, 2, 3])  # C = 2
    chosen = np.array([0, 1, 1, 1, 3, 3, 2, -1])  # K = 2; the last has no output
    found = open_set.matched_accuracies(chosen, truth, 2, 4)
    assert found == {"accuracy_all": 5 / 8, "accuracy_old": 3 / 4, "accuracy_new": 0.5}
    assert open_set.matched_accuracies(chosen, truth, 2, 2) == {}  # no clusters
    assert open_set.matched_accuracies(chosen[:4], truth[:4], 2, 4) == {}


def test_calibration_error_is_the_gap_of_each_bin():
    probability = np.array([0.95, 0.95, 0.95, 0.95, 0.62, 1.0])
    right = np.array([True, True, True, False, False, True])
    # bins of 1/15: four at 0.95 of which 3/4 are right; 0.62; the last holds 1 too
    expected = (abs(4 * 0.95 + 1.0 - 4) + 0.62) / 6
    assert open_set.calibration_error(probability, right) == pytest.approx(expected)
    assert open_set.calibration_error(probability[:0], right[:0]) is None


def test_all_of_it_is_measured_on_the_columns_of_the_findings(rng):
    truth = np.arange(400) % 5
    logits = 2 * np.eye(6)[truth] + rng.normal(size=(400, 6))
    test, elsewhere = seen(logits, truth, 3), rng.normal(-1, size=50)
    found = open_set.measure_open_set(test, 3, 0.4, elsewhere)
    known = truth < 3
    named = np.where(test.id_score < 0.4, 3, test.label)
    expected = balanced_accuracy_score(np.minimum(truth, 3), named)
    assert found.balanced_accuracy == pytest.approx(expected)
    expected = average_precision_score(known, test.log_odds)
    assert found.aupr == pytest.approx(expected)
    score = np.concatenate([test.log_odds[known], elsewhere])
    expected = roc_auc_score(np.arange(len(score)) < known.sum(), score)
    assert found.unseen_auroc == pytest.approx(expected)
    assert found.accuracy_old > 0.5 and found.accuracy_new > 0.5
    assert 0 < found.calibration_error < 0.5 and None not in found


def test_what_is_missing_is_not_measured(rng):
    truth = np.arange(30) % 3  # no foreign image, no cluster, no γ
    found = open_set.measure_open_set(seen(np.eye(3)[truth], truth, 3), 3, None)
    assert found == OpenSet(calibration_error=found.calibration_error)
    assert found.calibration_error > 0


def test_outputs_that_are_not_finite_are_never_right_and_most_foreign():
    truth = np.array([0, 1, 2, 2])
    logits = np.array([[3.0, 0, 0], [np.nan, 0, 0], [0, 0, 3], [0, 0, np.inf]])
    found = open_set.measure_open_set(seen(logits, truth, 2), 2, 0.5)
    assert found.accuracy_all == 0.5 and found.accuracy_old == 0.5
    assert found.fpr95 == 1.0  # the ID image without outputs is as foreign as can be
    assert np.isfinite(found.calibration_error)


@pytest.mark.parametrize("name", OpenSet._fields)
def test_a_table_can_show_each_of_them(name):
    measure = MEASURES[name]
    measured = make_result(open_set=OpenSet(**{name: 0.25}))
    assert measure.of(measured) == 0.25 * measure.scale
    assert measure.of(make_result()) is None  # an older result
    assert measure.more_is_better != ("fpr95" in name or "error" in name)
