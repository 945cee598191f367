"""What the field measures on test images of ID and foreign classes.

All of it is measured on the columns of `findings.npz`, so that it can be measured again
without the network. An image whose outputs are not finite is never right, and counts as
the most foreign of all.
"""

from __future__ import annotations

import numpy as np

from upsilon_jax.workdir.findings import Seen
from upsilon_jax.workdir.schema import OpenSet

_PASSING = 95  # percent of the ID images that a threshold must let pass


def measure_open_set(
    test: Seen,
    num_classes: int,
    foreign_below: float | None,
    unseen: np.ndarray | None = None,
) -> OpenSet:
    """All of it; None where what it needs is missing.

    Args:
      test: the test images of all classes, ID and OOD.
      num_classes: C.
      foreign_below: γ, the ID confidence below which an image counts as foreign.
      unseen: [m] log-odds of images from elsewhere, of classes that D_u never had.
    """
    is_id, finite = test.truth < num_classes, test.label >= 0
    score = _comparable(test.log_odds)
    known = is_id & finite
    right = test.label[known] == test.truth[known]
    chosen = np.where(test.cluster >= 0, num_classes + test.cluster, test.label)
    separate = {"": (score, is_id)}
    if unseen is not None:
        joined = np.concatenate([score[is_id], _comparable(unseen)])
        separate["unseen_"] = joined, np.arange(len(joined)) < is_id.sum()
    separation = {"auroc": auroc, "fpr95": fpr95, "aupr": aupr}
    found = {
        prefix + name: measure(*images)
        for prefix, images in separate.items()
        for name, measure in separation.items()
    }
    del found["auroc"]  # `Result` has it already
    if foreign_below is not None:
        foreign = test.id_score < foreign_below
        found["balanced_accuracy"] = balanced_accuracy(
            test.label, foreign, test.truth, num_classes
        )
    return OpenSet(
        calibration_error=calibration_error(test.probability[known], right),
        **matched_accuracies(chosen, test.truth, num_classes, test.logits.shape[1]),
        **found,
    )


def _comparable(score: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(score), -np.inf, score)


def auroc(score: np.ndarray, positive: np.ndarray) -> float | None:
    """P(score of a positive > score of a negative), ties a half; None if one is empty.

    The Mann-Whitney statistic: (R₊ - n₊(n₊+1)/2) / (n₊ n₋), R₊ the rank sum.
    """
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if not num_positive or not num_negative:
        return None
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # mean rank of equal scores
    rank_sum = ranks[inverse][positive].sum()
    above = rank_sum - num_positive * (num_positive + 1) / 2
    return float(above / (num_positive * num_negative))


def fpr95(score: np.ndarray, positive: np.ndarray) -> float | None:
    """Share of negatives with score ≥ t, the largest t that 95 % of positives reach.

    None if there are no positives or no negatives.
    """
    num_positive = int(positive.sum())
    if not num_positive or num_positive == len(positive):
        return None
    passing = -(-_PASSING * num_positive // 100)
    threshold = np.sort(score[positive])[num_positive - passing]
    return float((score[~positive] >= threshold).mean())


def aupr(score: np.ndarray, positive: np.ndarray) -> float | None:
    """Average precision Σ_t (R_t - R_{t-1}) · P_t over the distinct scores t, falling.

    R_t, P_t: recall and precision of taking score ≥ t for positive. It grows with the
    share of positives, which is what a useless score has. None if one kind is empty.
    """
    num_positive = int(positive.sum())
    if not num_positive or num_positive == len(positive):
        return None
    _, inverse, counts = np.unique(-score, return_inverse=True, return_counts=True)
    hits = np.bincount(inverse, positive)
    precision = np.cumsum(hits) / np.cumsum(counts)
    return float((hits / num_positive * precision).sum())


def balanced_accuracy(
    label: np.ndarray, foreign: np.ndarray, truth: np.ndarray, num_classes: int
) -> float | None:
    """Mean recall over C + 1 classes, the last of them all foreign images.

    A class without an image is left out. None if there is no foreign image.

    Args:
      label: [n] the most probable ID class.
      foreign: [n] whether an image is predicted as foreign instead.
      truth: [n] true class, OOD classes from C on.
      num_classes: C.
    """
    truth = np.minimum(truth, num_classes)
    if not (truth == num_classes).any():
        return None
    predicted = np.where(foreign, num_classes, label)
    recalls = [(predicted == c)[truth == c].mean() for c in np.unique(truth)]
    return float(np.mean(recalls))


def matched_accuracies(
    chosen: np.ndarray, truth: np.ndarray, num_classes: int, num_outputs: int
) -> dict[str, float]:
    """Accuracy over all, ID (old) and foreign (new) classes, as GCD measures it.

    One matching of all outputs to all classes, each used at most once, makes the most
    images right (Hungarian algorithm). Nothing without clusters, or if there are not
    both kinds of images: then there is nothing to be discovered.

    Args:
      chosen: [n] the most probable of all T outputs, -1 if there is none.
      truth: [n] true class, OOD classes from C on.
      num_classes: C.
      num_outputs: T.
    """
    new = truth >= num_classes
    if num_outputs == num_classes or not new.any() or new.all():
        return {}
    from scipy.optimize import linear_sum_assignment  # late: only this needs it

    counts = np.zeros((num_outputs, truth.max() + 1), np.int64)
    np.add.at(counts, (chosen[chosen >= 0], truth[chosen >= 0]), 1)
    outputs, classes = linear_sum_assignment(counts, maximize=True)
    class_of = np.full(num_outputs + 1, -1)  # the last: of no output
    class_of[outputs] = classes
    right = class_of[chosen] == truth
    parts = {"all": right, "old": right[~new], "new": right[new]}
    return {f"accuracy_{name}": float(part.mean()) for name, part in parts.items()}


def calibration_error(
    probability: np.ndarray, right: np.ndarray, num_bins: int = 15
) -> float | None:
    """Expected calibration error Σ_b n_b/n · |mean probability - share right|.

    The bins b are of equal width and cover [0, 1]. None of no images.

    Args:
      probability: [n] of the predicted class.
      right: [n] whether that is the true one.
      num_bins: how many bins.
    """
    if not len(probability):
        return None
    bins = np.minimum((probability * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, probability - right.astype(np.float64), num_bins)
    return float(np.abs(gaps).sum() / len(probability))
