"""The paper's benchmarks as label arrays of the true class sizes."""

import numpy as np

from upsilon_jax.data.splits import make_splits, relabel

CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()
ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
VEHICLES = ("airplane", "automobile", "ship", "truck")
DIGITS = [str(i) for i in range(10)]
SVHN_TRAIN = (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659)
SVHN_TEST = (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595)


def labels_of(sizes):
    """Labels of classes with these sizes, mixed as in a real file."""
    labels = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    return np.random.default_rng(7).permutation(labels)


class Benchmark:
    def __init__(self, names, train, test, **spec):
        self.names, self.spec = names, spec
        self.train, self.test = labels_of(train), labels_of(test)

    def splits(self, mismatch, seed=0, **changes):
        spec = self.spec | {"mismatch": mismatch, "seed": seed} | changes
        return make_splits(self.train, self.test, self.names, **spec)

    def counts(self, splits, indices):
        labels = relabel(self.train[indices], self.names, splits.classes)
        assert (labels >= 0).all()
        return np.bincount(labels, minlength=len(splits.classes)).tolist()


def first_and_last(n):
    return {
        "id_classes": tuple(str(i) for i in range(n)),
        "ood_classes": tuple(str(i) for i in range(n, 2 * n)),
    }


def cifar10():
    return Benchmark(
        CIFAR10,
        [5000] * 10,
        [1000] * 10,
        id_classes=ANIMALS,
        ood_classes=VEHICLES,
        labels_per_class=400,
        num_unlabeled=20000,
    )


def svhn():
    return Benchmark(
        DIGITS,
        SVHN_TRAIN,
        SVHN_TEST,
        id_classes=DIGITS[:6],
        ood_classes=DIGITS[6:],
        labels_per_class=100,
        num_unlabeled=20000,
    )


def many(n, train, test, num_unlabeled):
    names = [f"c{i:03d}" for i in range(2 * n)]
    return Benchmark(
        names,
        [train] * 2 * n,
        [test] * 2 * n,
        **first_and_last(n),
        labels_per_class=100,
        num_unlabeled=num_unlabeled,
    )


def check_sets(bench, splits, labeled_per_class, num_classes):
    everything = np.concatenate([splits.labeled, splits.unlabeled, splits.valid])
    assert len(np.unique(everything)) == len(everything)  # disjoint, no repeats
    counts = bench.counts(splits, splits.labeled)
    assert counts[:num_classes] == [labeled_per_class] * num_classes
    assert not any(counts[num_classes:])
