"""Splits of any labels by any wish: a split that keeps its promises, or one line."""

import numpy as np

from upsilon_jax.data.splits import apportion, digest, make_own_splits, make_splits
from upsilon_jax.errors import ConfigError

NAMES = tuple("abcdefgh")
EXTREMES = (0, 1, 2, 5, 20, 1000, 2**31 - 1, -1)


def labels(rng):
    """Of few or no images, some of no known class."""
    return rng.integers(-1, len(NAMES), int(rng.choice([0, 1, 9, 60, 300])))


def small(rng):
    extreme = rng.random() < 0.15
    return int(rng.choice(EXTREMES)) if extreme else int(rng.integers(0, 12))


def drawn(rng, _):
    """The benchmark's split: sizes, shares, and nothing twice."""
    train, test = labels(rng), labels(rng)
    num_id = int(rng.integers(1, 6))
    names = rng.permutation(NAMES).tolist()
    wish = dict(
        id_classes=names[:num_id],
        ood_classes=names[num_id : num_id + int(rng.integers(0, 4))],
        labels_per_class=small(rng),
        num_unlabeled=small(rng) * int(rng.choice([1, 3])),
        mismatch=float(rng.choice([0, 1, 0.5, 0.25, rng.random(), 1e-9, np.nan])),
        valid_per_class=small(rng),
        ood_imbalance=float(rng.choice([1, 1, 2, 10, 1e30, np.inf])),
        seed=int(rng.choice([0, 1, 2**31 - 1])),
    )
    try:
        splits = make_splits(train, test, NAMES, **wish)
    except ConfigError as error:
        assert "\n" not in str(error)
        return 1, 0
    check_parts(splits, train, test)
    of = lambda rows: np.array(NAMES)[train[rows]]
    per_class = [(of(splits.labeled) == name).sum() for name in wish["id_classes"]]
    assert per_class == [wish["labels_per_class"]] * num_id
    assert np.isin(of(splits.valid), wish["id_classes"]).all()
    num_ood = np.isin(of(splits.unlabeled), wish["ood_classes"]).sum()
    size = len(splits.unlabeled)
    assert abs(num_ood - size * wish["mismatch"]) <= 1
    if wish["num_unlabeled"] and wish["ood_imbalance"] == 1:
        assert size == wish["num_unlabeled"]
    again = make_splits(train, test, NAMES, **wish)
    assert digest(again) == digest(splits)
    return 1, 1


def own(rng, _):
    """The split of one's own data: D_u is what has no label."""
    train, test = labels(rng), np.maximum(labels(rng), 0)
    wish = dict(
        labels_per_class=rng.choice([None, small(rng)]),
        num_unlabeled=rng.choice([None, small(rng)]),
        valid_per_class=small(rng),
        seed=int(rng.integers(2**31)),
    )
    try:
        splits = make_own_splits(train, test, NAMES, **wish)
    except ConfigError as error:
        assert "\n" not in str(error)
        return 1, 0
    check_parts(splits, train, test)
    assert (train[splits.unlabeled] == -1).all() and (train[splits.labeled] >= 0).all()
    assert len(splits.unlabeled) == (wish["num_unlabeled"] or (train == -1).sum())
    return 1, 1


def check_parts(splits, train, test):
    parts = (splits.labeled, splits.unlabeled, splits.valid)
    used = np.concatenate(parts)
    assert len(np.unique(used)) == len(used)
    assert used.min(initial=0) >= 0 and used.max(initial=-1) < len(train)
    assert np.isin(splits.test, np.arange(len(test))).all()
    assert all(part.dtype == np.int64 for part in parts)


def shares(rng, _):
    """Whole shares of a total: exact, within their room, as even as that lets them."""
    room = rng.integers(0, 30, rng.integers(1, 12))
    total = int(rng.integers(0, room.sum() + 1))
    counts = apportion(total, room)
    assert counts.sum() == total and (counts >= 0).all() and (counts <= room).all()
    free = counts < room
    if free.any():  # nobody with room left has less than another, but for rounding
        assert counts[free].min() >= counts.max() - 1
    return 1, 1
