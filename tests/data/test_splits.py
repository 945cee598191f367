"""Counts of the paper's benchmarks, on label arrays of the true class sizes."""

import numpy as np
import pytest

from tests.data.benchmarks import (
    ANIMALS,
    CIFAR10,
    DIGITS,
    SVHN_TEST,
    VEHICLES,
    check_sets,
    cifar10,
    many,
    svhn,
)
from upsilon_jax.data.classes import resolve_classes
from upsilon_jax.data.splits import (
    apportion,
    digest,
    make_splits,
    relabel,
)
from upsilon_jax.errors import ConfigError

# Of labels 0..9 in turn: no random number but ours is in it.
DIGEST = "e067c5b17dc697dbb28f9e6aabdad8ce117ce3c8fd2686f1289037019b9c495e"


@pytest.mark.parametrize(
    ("mismatch", "id_counts", "ood_counts"),
    [
        (0.0, [3334, 3334, 3333, 3333, 3333, 3333], [0] * 4),
        (0.25, [2500] * 6, [1250] * 4),
        (0.5, [1667, 1667, 1667, 1667, 1666, 1666], [2500] * 4),
        (0.75, [834, 834, 833, 833, 833, 833], [3750] * 4),
        (1.0, [0] * 6, [5000] * 4),
    ],
)
def test_cifar10_has_the_papers_counts(mismatch, id_counts, ood_counts):
    bench = cifar10()
    splits = bench.splits(mismatch)
    check_sets(bench, splits, 400, 6)
    assert bench.counts(splits, splits.unlabeled) == id_counts + ood_counts
    assert splits.classes == ANIMALS + VEHICLES
    assert len(splits.test) == 6000


@pytest.mark.parametrize(
    ("mismatch", "ood_counts"),
    [
        (0.0, [0] * 4),
        (0.25, [1250] * 4),
        (0.5, [2500] * 4),
        (0.75, [3750] * 4),
        (1.0, [5148, 5148, 5045, 4659]),  # 8 and 9 are short, 6 and 7 fill up
    ],
)
def test_svhn_has_the_papers_counts(mismatch, ood_counts):
    bench = svhn()
    splits = bench.splits(mismatch)
    check_sets(bench, splits, 100, 6)
    counts = bench.counts(splits, splits.unlabeled)
    assert counts[6:] == ood_counts
    assert sum(counts) == 20000 and np.ptp(counts[:6]) <= 1
    assert len(splits.test) == sum(SVHN_TEST[:6])


@pytest.mark.parametrize("quarter", range(5))
@pytest.mark.parametrize(
    ("n", "train", "test", "num_unlabeled", "num_test", "per_class"),
    [
        (50, 500, 100, 20000, 5000, 400),  # CIFAR-100
        (100, 500, 50, 40000, 5000, 400),  # Tiny ImageNet
        (50, 1300, 50, 20000, 2500, 400),  # ImageNet100
    ],
)
def test_many_classes_have_the_papers_counts(
    n, train, test, num_unlabeled, num_test, per_class, quarter
):
    bench = many(n, train, test, num_unlabeled)
    splits = bench.splits(quarter / 4)
    check_sets(bench, splits, 100, n)
    ood = per_class * quarter // 4
    expected = [per_class - ood] * n + [ood] * n
    assert bench.counts(splits, splits.unlabeled) == expected
    assert len(splits.test) == num_test


@pytest.mark.parametrize(
    ("mismatch", "num_unlabeled", "num_ood"),
    [(0.25, 20000, 5000), (0.5, 17794, 8897), (0.75, 11862, 8897), (1.0, 8897, 8897)],
)
def test_imbalanced_ood_shrinks_and_keeps_the_ratio(mismatch, num_unlabeled, num_ood):
    bench = cifar10()
    splits = bench.splits(mismatch, ood_imbalance=10.0)
    counts = bench.counts(splits, splits.unlabeled)
    assert (sum(counts), sum(counts[6:])) == (num_unlabeled, num_ood)
    # Exact up to one image: 0.75 of 11,862 is no whole number.
    assert abs(num_ood - mismatch * num_unlabeled) <= 0.5
    assert np.ptp(counts[:6]) <= 1
    if num_ood == 8897:
        assert counts[6:] == [5000, 2320, 1077, 500]
    factors = 10 ** -(np.arange(4) / 3)
    np.testing.assert_allclose(
        counts[6:], num_ood * factors / factors.sum(), atol=1.0, rtol=0
    )


def test_imbalanced_ood_without_ood_images_is_the_plain_split():
    bench = cifar10()
    assert digest(bench.splits(0.0, ood_imbalance=10.0)) == digest(bench.splits(0.0))


def test_labeled_set_is_that_of_the_seed():
    bench = cifar10()
    sets = [bench.splits(r / 4).labeled for r in range(5)]
    sets += [bench.splits(0.5, valid_per_class=100, ood_imbalance=10.0).labeled]
    for labeled in sets[1:]:
        np.testing.assert_array_equal(labeled, sets[0])
    other = bench.splits(0.5, seed=1).labeled
    # 400 of 5,000 by chance: 8 % in common is expected, 20 % is not.
    assert len(np.intersect1d(other, sets[0])) < 0.2 * len(other)


def test_validation_takes_only_what_is_left():
    bench = cifar10()
    without, with_ = bench.splits(0.5), bench.splits(0.5, valid_per_class=50)
    check_sets(bench, with_, 400, 6)
    np.testing.assert_array_equal(with_.unlabeled, without.unlabeled)
    assert bench.counts(with_, with_.valid) == [50] * 6 + [0] * 4
    full = many(50, 500, 100, 20000)
    assert len(full.splits(0.0, valid_per_class=50).valid) == 0  # every image is used


def test_order_of_unlabeled_tells_nothing_of_the_class():
    """ID images first would decide ties; here also when the file is sorted by class."""
    labels = np.repeat(np.arange(10), 5000)
    splits = make_splits(
        labels, labels[::5], CIFAR10, **(cifar10().spec), mismatch=0.5, seed=3
    )
    is_ood = relabel(labels[splits.unlabeled], CIFAR10, splits.classes) >= 6
    # Standard deviation of the share in a random half is 0.0035: 4 of them.
    assert abs(is_ood[:10000].mean() - 0.5) < 0.014


def test_digest_is_stable_and_sees_everything():
    labels = np.arange(50000) % 10
    splits = make_splits(
        labels, labels[:10000], CIFAR10, **cifar10().spec, mismatch=0.5, seed=0
    )
    # Fails if a numpy release, a platform or an edit changes what a seed means.
    assert digest(splits) == DIGEST
    for change in (
        {"labeled": splits.labeled[::-1]},
        {"unlabeled": splits.unlabeled[:-1]},
        {"valid": splits.unlabeled[:1]},
        {"test": splits.test[1:]},
        {"classes": splits.classes[::-1]},
        {"seed": 1},
    ):
        assert digest(splits._replace(**change)) != DIGEST


def test_relabel_numbers_id_classes_then_ood_classes():
    bench = cifar10()
    splits = bench.splits(0.5)
    labels = np.array([2, 7, 0, 9, -1])
    np.testing.assert_array_equal(
        relabel(labels, CIFAR10, splits.classes), [0, 5, 6, 9, -1]
    )
    np.testing.assert_array_equal(relabel(labels, CIFAR10, ANIMALS), [0, 5, -1, -1, -1])
    known = relabel(bench.test, CIFAR10, splits.classes[:6]) >= 0
    np.testing.assert_array_equal(np.flatnonzero(known), splits.test)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels_per_class": 5001}, "data.labels_per_class=5001: class bird has only"),
        ({"labels_per_class": 0}, "data.labels_per_class=0"),
        ({"num_unlabeled": 50000}, "data.num_unlabeled=50000 .* 25,000 OOD images"),
        ({"num_unlabeled": -1}, "data.num_unlabeled=-1"),
        ({"mismatch": 1.5}, "data.mismatch=1.5"),
        ({"mismatch": float("nan")}, "data.mismatch=nan"),
        ({"ood_imbalance": 0.5}, "data.ood_imbalance=0.5"),
        ({"valid_per_class": -1}, "data.valid_per_class=-1"),
        ({"seed": -1}, "seed=-1"),
        (
            {"id_classes": ("brid",)},
            "data.id_classes: no class 'brid'; did you .* bird",
        ),
        ({"id_classes": ("bird", "2")}, "bird given more than once"),
        ({"ood_classes": ("bird",)}, "data.ood_classes: bird also in data.id_classes"),
        ({"id_classes": ()}, "data.id_classes is empty"),
        ({"id_classes": "random:11"}, "data.id_classes='random:11': there are 10"),
        ({"id_classes": ("10",)}, "no class '10'"),
        ({"ood_classes": (), "mismatch": 0.5}, "10,000 OOD images: there are only 0"),
    ],
)
def test_impossible_requests_name_field_and_supply(changes, message):
    with pytest.raises(ConfigError, match=message):
        cifar10().splits(changes.pop("mismatch", 0.5), **changes)


@pytest.mark.parametrize(
    ("mismatch", "expected"), [(0.0, 30), (1.0, 20), (0.5, 40), (0.25, 40), (0.8, 25)]
)
def test_without_a_number_all_that_the_ratio_allows(mismatch, expected):
    """Three ID classes with ten images left each, two OOD classes of ten."""
    labels = np.repeat(np.arange(5), [15, 15, 15, 10, 10])
    for nothing in (None, 0):
        splits = make_splits(
            labels,
            labels,
            "01234",
            id_classes=tuple("012"),
            ood_classes=tuple("34"),
            labels_per_class=5,
            num_unlabeled=nothing,
            mismatch=mismatch,
            seed=0,
        )
        assert len(splits.unlabeled) == expected
        assert (labels[splits.unlabeled] > 2).sum() == round(mismatch * expected)


def test_random_classes_are_a_function_of_the_seed():
    choose = lambda seed: resolve_classes(CIFAR10, "random:6", "random:4", seed)
    chosen = [choose(seed) for seed in range(50)]
    assert chosen[3] == choose(3)
    assert len(set(chosen)) > 40  # of 210 possible
    for id_classes, ood_classes in chosen:
        assert sorted(id_classes + ood_classes) == sorted(CIFAR10)
        assert list(id_classes) == [c for c in CIFAR10 if c in id_classes]


def test_class_specifications():
    names = [f"cifar10/{c}" for c in CIFAR10] + [f"svhn/{c}" for c in DIGITS]
    id_classes, ood_classes = resolve_classes(
        names, "random:6:cifar10/", "random:4:svhn/", seed=0
    )
    assert len(id_classes) == 6 and all(c.startswith("cifar10/") for c in id_classes)
    assert len(ood_classes) == 4 and all(c.startswith("svhn/") for c in ood_classes)
    assert resolve_classes(CIFAR10, ANIMALS, "rest", 0) == (ANIMALS, VEHICLES)
    assert resolve_classes(CIFAR10, "rest", VEHICLES, 0) == (ANIMALS, VEHICLES)
    assert resolve_classes(CIFAR10, "rest", "rest", 0) == (tuple(CIFAR10), ())
    assert resolve_classes(CIFAR10, "all", (), 0) == (tuple(CIFAR10), ())
    assert resolve_classes(CIFAR10, ("9", "0"), ("1",), 0)[0] == ("truck", "airplane")
    assert resolve_classes(CIFAR10[::-1], ("0",), (), 0)[0] == ("truck",)


def test_apportion_is_exact_and_within_room():
    rng = np.random.default_rng(0)
    for _ in range(200):
        room = rng.integers(0, 50, rng.integers(1, 9))
        weights = rng.uniform(0.1, 1, len(room))
        total = rng.integers(0, room.sum() + 1)
        counts = apportion(total, room, weights)
        assert counts.sum() == total and (counts >= 0).all() and (counts <= room).all()
        free = counts < room
        if free.sum() > 1:  # what is not full follows the weights to within one
            level = counts[free] / weights[free]
            slack = 1 / weights[free]
            assert (level[:, None] <= level[None] + slack[:, None] + slack[None]).all()


def test_a_long_tail_of_no_classes_is_refused_in_one_line():
    labels = np.repeat(np.arange(2), 9)
    with pytest.raises(ConfigError, match="needs 4 OOD images: there are only 0 left"):
        make_splits(
            labels,
            labels,
            ("a", "b"),
            id_classes=("a", "b"),
            ood_classes=(),
            labels_per_class=1,
            num_unlabeled=8,
            mismatch=0.5,
            ood_imbalance=2.0,
            seed=0,
        )
