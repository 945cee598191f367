"""Which images are labeled, unlabeled, for validation and for test: pure numpy.

Every class has one seeded order of its train images. The labeled images are the first
of it, the unlabeled ones follow, validation takes what is left: so the labeled set is
the same for every mismatch ratio and method of a seed, and the sets cannot overlap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from upsilon_jax.data.classes import resolve_classes
from upsilon_jax.data.samplers import permutation
from upsilon_jax.data.source import UNKNOWN
from upsilon_jax.errors import ConfigError
from upsilon_jax.types import Splits


def make_splits(
    train_labels: np.ndarray,
    test_labels: np.ndarray,
    class_names: Sequence[str],
    *,
    id_classes: str | Sequence[str],
    ood_classes: str | Sequence[str],
    labels_per_class: int,
    num_unlabeled: int | None,
    mismatch: float,
    valid_per_class: int = 0,
    ood_imbalance: float = 1.0,
    seed: int,
) -> Splits:
    """Draws the benchmark: D_l, and D_u with a share `mismatch` of OOD images (§5).

    D_u has exact totals and as many images of every class of a kind; a class that is
    too small gives all it has and the others give more (SVHN at 100 %).

    Args:
      train_labels: [n] numbers of `class_names`, negative where unknown.
      test_labels: [t].
      class_names: the data set's classes.
      id_classes: as `resolve_classes` takes them; their order is that of the labels.
      ood_classes: likewise, none of the ID classes.
      labels_per_class: labeled images of every ID class.
      num_unlabeled: |D_u|; None or 0 for as many as there are at this ratio.
      mismatch: share of D_u from OOD classes, 0..1.
      valid_per_class: at most this many images of every ID class that nothing else
        took; there may be none (CIFAR-100 at ratio 0 uses every ID image).
      ood_imbalance: largest over smallest OOD class, exponential in between
        (table 4); where the classes are too small for it D_u shrinks, the ratio stays.
      seed: ≥ 0.

    Raises:
      ConfigError: asks for what the data set has not; names field, value and supply.
    """
    num_unlabeled, names = num_unlabeled or 0, list(class_names)
    _check(labels_per_class, num_unlabeled, mismatch, valid_per_class, ood_imbalance)
    id_classes, ood_classes = resolve_classes(names, id_classes, ood_classes, seed)
    orders = {
        name: _class_order(train_labels, names.index(name), seed)
        for name in (*id_classes, *ood_classes)
    }
    _check_supply(labels_per_class, {name: orders[name] for name in id_classes})
    id_room = np.array([len(orders[c]) - labels_per_class for c in id_classes])
    ood_room = np.array([len(orders[c]) for c in ood_classes], dtype=np.int64)
    id_counts, ood_counts = _unlabeled_counts(
        id_room, ood_room, num_unlabeled, mismatch, ood_imbalance
    )
    labeled, unlabeled, valid = [], [], []
    for name, count in zip(id_classes, id_counts, strict=True):
        end = labels_per_class + count
        labeled.append(orders[name][:labels_per_class])
        unlabeled.append(orders[name][labels_per_class:end])
        valid.append(orders[name][end : end + valid_per_class])
    for name, count in zip(ood_classes, ood_counts, strict=True):
        unlabeled.append(orders[name][:count])
    numbers = [names.index(name) for name in id_classes]
    test = np.flatnonzero(np.isin(test_labels, numbers))
    classes = (*id_classes, *ood_classes)
    return _joined(labeled, unlabeled, valid, test, classes, len(id_classes), seed)


def make_own_splits(
    train_labels: np.ndarray,
    test_labels: np.ndarray,
    class_names: Sequence[str],
    *,
    labels_per_class: int | None = None,
    num_unlabeled: int | None = None,
    valid_per_class: int = 0,
    seed: int,
) -> Splits:
    """The split of one's own data: D_u are the images whose class nobody knows.

    Args:
      train_labels: [n], `UNKNOWN` for the images of D_u.
      test_labels: [t].
      class_names: all of them are ID classes; OOD classes have no names.
      labels_per_class: at most so many of every class; None or 0 for all.
      num_unlabeled: |D_u|; None or 0 for all.
      valid_per_class: at most so many that `labels_per_class` has left over.
      seed: ≥ 0.
    """
    train_labels = np.asarray(train_labels)
    unknown = _class_order(train_labels, UNKNOWN, seed)
    num_unlabeled = num_unlabeled or len(unknown)
    _check(labels_per_class or 1, num_unlabeled, 0, valid_per_class, 1)
    if num_unlabeled > len(unknown):
        raise ConfigError(
            f"data.num_unlabeled={num_unlabeled}: there are only {len(unknown):,}"
        )
    labeled, valid = [], []
    for number in range(len(class_names)):
        order = _class_order(train_labels, number, seed)
        end = labels_per_class or len(order)
        labeled.append(order[:end])
        valid.append(order[end : end + valid_per_class])
    unlabeled, test = [unknown[:num_unlabeled]], np.arange(len(test_labels))
    classes = tuple(class_names)
    return _joined(labeled, unlabeled, valid, test, classes, len(classes), seed)


def _unlabeled_counts(
    id_room: np.ndarray,
    ood_room: np.ndarray,
    num_unlabeled: int,
    mismatch: float,
    ood_imbalance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Images of D_u from every ID class and from every OOD class, at most `room`."""
    num_unlabeled = num_unlabeled or _most(id_room.sum(), ood_room.sum(), mismatch)
    num_ood = _round(num_unlabeled * mismatch)
    if ood_imbalance > 1 and num_ood and len(ood_room):
        tail = _long_tail(ood_room, ood_imbalance)
        if num_ood > tail.sum():
            num_unlabeled = int(tail.sum() / mismatch)
            num_ood, ood_counts = int(tail.sum()), tail
        else:
            weights = _tail_weights(len(ood_room), ood_imbalance)
            ood_counts = apportion(num_ood, ood_room, weights)
    else:
        ood_counts = _shares(num_ood, ood_room, num_unlabeled, mismatch, "OOD")
    id_counts = _shares(num_unlabeled - num_ood, id_room, num_unlabeled, mismatch, "ID")
    return id_counts, ood_counts


def apportion(
    total: int, room: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Splits `total` by `weights` into whole shares of at most `room`, exactly.

    Largest remainder, ties to the first; what a full share cannot take goes to the
    others in the same way. The caller has made sure that `total` fits.
    """
    weights = np.ones(len(room)) if weights is None else weights
    counts = np.zeros(len(room), np.int64)
    unfilled = np.ones(len(room), bool)
    while True:
        left = total - counts[~unfilled].sum()
        if not unfilled.any():
            return counts
        exact = left * weights[unfilled] / weights[unfilled].sum()
        shares = np.floor(exact + 1e-9).astype(np.int64)  # 9.999... is 10
        missing = left - shares.sum()
        shares[np.argsort(shares - exact, kind="stable")[:missing]] += 1
        counts[unfilled] = shares
        full = unfilled & (counts > room)
        if not full.any():
            return counts
        counts[full], unfilled[full] = room[full], False


def relabel(
    labels: np.ndarray, class_names: Sequence[str], classes: Sequence[str]
) -> np.ndarray:
    """Numbers of `class_names` → positions in `classes` (`Splits.classes`), int32.

    ID classes become 0 .. C-1 and OOD classes C, C+1, ...; all else is `UNKNOWN`.
    """
    table = np.full(len(class_names) + 1, UNKNOWN, np.int32)  # the last: unknown
    names = list(class_names)
    for position, name in enumerate(classes):
        table[names.index(name)] = position
    labels = np.asarray(labels)
    return table[np.where(labels < 0, len(class_names), labels)]


def digest(splits: Splits) -> str:
    """sha256 over the whole split, the same on every machine."""
    sha = hashlib.sha256()
    for indices in (splits.labeled, splits.unlabeled, splits.valid, splits.test):
        sha.update(len(indices).to_bytes(8, "little"))
        sha.update(np.ascontiguousarray(indices, dtype="<i8").tobytes())
    sha.update("\0".join([*splits.classes, str(splits.seed)]).encode())
    return sha.hexdigest()


def _check(labels_per_class, num_unlabeled, mismatch, valid_per_class, ood_imbalance):
    if labels_per_class < 1:
        raise ConfigError(f"data.labels_per_class={labels_per_class}: must be ≥ 1")
    if num_unlabeled < 0:
        raise ConfigError(f"data.num_unlabeled={num_unlabeled}: must be ≥ 0")
    if not 0 <= mismatch <= 1:
        raise ConfigError(f"data.mismatch={mismatch}: must be between 0 and 1")
    if valid_per_class < 0:
        raise ConfigError(f"data.valid_per_class={valid_per_class}: must be ≥ 0")
    if not (np.isfinite(ood_imbalance) and ood_imbalance >= 1):
        raise ConfigError(f"data.ood_imbalance={ood_imbalance}: must be ≥ 1")


def _check_supply(labels_per_class: int, orders: dict[str, np.ndarray]) -> None:
    for name, order in orders.items():
        if labels_per_class > len(order):
            raise ConfigError(
                f"data.labels_per_class={labels_per_class}: class {name} has only "
                f"{len(order):,} train images"
            )


def _class_order(labels: np.ndarray, number: int, seed: int) -> np.ndarray:
    members = np.flatnonzero(np.asarray(labels) == number)
    return members[permutation(len(members), seed=seed, stream=f"class/{number}")]


def _joined(labeled, unlabeled, valid, test, classes, num_classes, seed) -> Splits:
    """The split of the parts that each class gives."""
    return Splits(
        labeled=_shuffled(labeled, seed, "split/labeled"),
        unlabeled=_shuffled(unlabeled, seed, "split/unlabeled"),
        valid=_shuffled(valid, seed, "split/valid"),
        test=test,
        classes=classes,
        num_classes=num_classes,
        seed=seed,
    )


def _shuffled(parts: list[np.ndarray], seed: int, stream: str) -> np.ndarray:
    """Concatenates in an order that tells nothing of the classes.

    Rows of D_u break ties by their position: ID images must not come first.
    """
    indices = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
    return indices[permutation(len(indices), seed=seed, stream=stream)]


def _most(num_id: int, num_ood: int, mismatch: float) -> int:
    """The largest D_u with a share `mismatch` of OOD images."""
    if mismatch in (0, 1):
        return int(num_ood if mismatch else num_id)
    return int(min(num_id / (1 - mismatch), num_ood / mismatch))


def _shares(count, room, num_unlabeled, mismatch, kind) -> np.ndarray:
    if count > room.sum():
        raise ConfigError(
            f"data.num_unlabeled={num_unlabeled} with data.mismatch={mismatch} needs "
            f"{count:,} {kind} images: there are only {room.sum():,} left"
        )
    return apportion(count, room)


def _tail_weights(num_classes: int, ratio: float) -> np.ndarray:
    """Exponential long tail: 1 ... 1/ratio in equal factors."""
    return ratio ** -(np.arange(num_classes) / max(num_classes - 1, 1))


def _long_tail(room: np.ndarray, ratio: float) -> np.ndarray:
    """The largest long-tailed counts that fit: 5000, 2320, 1077, 500 for CIFAR-10."""
    weights = _tail_weights(len(room), ratio)
    return np.floor((room / weights).min() * weights + 1e-9).astype(np.int64)


def _round(value: float) -> int:
    return int(np.floor(value + 0.5))
