"""Warnings about pseudo-labels that go wrong: when they come, and when again."""

import pytest

from configs import digits
from upsilon_jax.config import Schedule
from upsilon_jax.training.concerns import concerns
from upsilon_jax.workdir.schema import Entry, Labels

SCHEDULE = Schedule(1, 40, 2, 2, 1, 1, 1)  # refreshes after epochs 2, 4, 6, ...


def history(*counts):
    """Entries of two epochs for every (N, M); the second has the same P."""
    labels = [Labels(6 * n + m, 6 * n, n, m) for n, m in counts for _ in range(2)]
    return [Entry(epoch, epoch, {}, labels=p) for epoch, p in enumerate(labels, 2)]


def found(*counts, method="upsilon", num_unlabeled=100):
    config = digits.get_config(method)
    return concerns(history(*counts), config, SCHEDULE, num_unlabeled)


def epochs(*counts, **kwargs):
    return [epoch for epoch, _ in found(*counts, **kwargs)]


def test_sec_that_swallows_the_heap_is_told_once_and_again_when_it_comes_back():
    [(epoch, line)] = found((8, 20), (8, 49), (6, 55), (5, 60), (1, 80))
    assert epoch == 6 and line.startswith("epoch 6: SEC swallows")
    assert "55 of 100" in line and "left 6 (N, once 8)" in line
    assert "--config.method.ood_threshold (γ, 0.3)" in line and "\n" not in line
    assert epochs((8, 20), (4, 60), (4, 50), (4, 60), (3, 70)) == [4, 8]


def test_a_heap_that_is_mostly_foreign_is_no_concern():
    assert epochs((4, 60), (6, 70), (8, 75), (7, 80)) == []  # N holds
    assert epochs((8, 20), (4, 45)) == []  # M is below half
    assert epochs((0, 90), (0, 95)) == []  # N was never there


def test_n_that_stays_0_is_told_once_and_again_when_it_comes_back():
    [(epoch, line)] = found((0, 1), (0, 1), (0, 1), (0, 1), (0, 1))
    assert epoch == 6 and line.startswith("epoch 6: N is 0 at 3 refreshes")
    assert "--config.method.threshold (τ, 0.95)" in line
    zero, one = (0, 1), (1, 1)
    assert epochs(zero, zero, one, zero, zero, zero, one, zero, zero, zero) == [12, 20]


@pytest.mark.parametrize("method", ["pl", "sec", "fixmatch+sec"])
def test_without_rebalancing_n_may_be_0(method):
    assert epochs((0, 1), (0, 1), (0, 1), method=method) == []


def test_composed_methods_have_fields_of_their_own():
    [(_, line)] = found((0, 1), (0, 1), (0, 1), method="fixmatch+upsilon")
    assert "--config.method.upsilon.threshold (τ, " in line


def test_methods_without_pseudo_labels_have_no_concerns():
    config = digits.get_config("baseline")
    entries = [Entry(epoch, epoch, {}) for epoch in range(1, 9)]
    assert concerns(entries, config, SCHEDULE, 100) == []
