"""What is measured on predictions and on pseudo-labels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from upsilon_jax.kernels.confidence import id_confidence
from upsilon_jax.kernels.imbalance import imbalance
from upsilon_jax.methods.selection import estimate_foreign
from upsilon_jax.types import Predictions, PseudoLabels
from upsilon_jax.workdir.schema import Foreign, Imbalance, Labels


def accuracy(logits: np.ndarray, label: np.ndarray, num_classes: int) -> float:
    """Share of rows with argmax_{y < C} f(y|x) = label (Eq. 3): ID classes only."""
    return float(np.mean(logits[:, :num_classes].argmax(axis=1) == label))


def confusion(
    logits: np.ndarray, label: np.ndarray, num_classes: int, num_true: int
) -> np.ndarray:
    """[num_true, C] counts: true class (OOD classes too) by predicted ID class."""
    counts = np.zeros((num_true, num_classes), np.int64)
    np.add.at(counts, (label, logits[:, :num_classes].argmax(axis=1)), 1)
    return counts


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


def id_auroc(logits: np.ndarray, label: np.ndarray, num_classes: int) -> float | None:
    """How well c(x) tells ID from OOD images; None if one kind is missing.

    Args:
      logits: [M, T] of images of ID and OOD classes.
      label: [M] their classes, OOD from C on.
      num_classes: C.
    """
    rank = np.asarray(id_confidence(jnp.asarray(logits), num_classes).rank)
    return auroc(rank, label < num_classes)


def measure_labels(
    labels: PseudoLabels, hidden: np.ndarray, num_classes: int
) -> Labels:
    """Counts of P, and what the truth says of it where that is known.

    Args:
      labels: the current P over D_u.
      hidden: [N] true classes of D_u, -1 unknown; only ever used for diagnostics.
      num_classes: C.
    """
    label = np.asarray(labels.label)
    selected = np.asarray(labels.weight) > 0
    confident = selected & (label < num_classes)
    counts = np.bincount(label[confident], minlength=num_classes)
    found = Labels(
        num_selected=int(selected.sum()),
        num_confident=int(confident.sum()),
        per_class=int(counts.min()),
        num_explored=int((selected & (label >= num_classes)).sum()),
    )
    if np.any(hidden < 0):
        return found
    foreign = hidden[confident] >= num_classes
    right = label[confident][~foreign] == hidden[confident][~foreign]
    share = lambda part: float(part.mean()) if part.size else None
    return found._replace(ood_share=share(foreign), pseudo_accuracy=share(right))


def measure_foreign(
    outputs: Predictions, num_classes: int, where: jax.Array
) -> Foreign | None:
    """About how many images of D_u are foreign; None if nothing can be said.

    Args:
      outputs: of D_u, and of labeled or validation images; rows may be sharded.
      num_classes: C.
      where: [N_pad] bool, the rows that are no padding.
    """
    found = jax.device_get(_estimate_foreign(outputs, num_classes, where))
    if not np.isfinite(found.share):
        return None
    return Foreign(
        *(float(x) for x in (found.share, found.low, found.high, found.threshold))
    )


_estimate_foreign = jax.jit(estimate_foreign, static_argnums=1)


def measure_imbalance(
    logits: np.ndarray, hidden: np.ndarray, num_classes: int
) -> Imbalance:
    """Imbalance (appendix C) of plain argmax labels on ID and on OOD images of D_u.

    Args:
      logits: [N, T] of D_u.
      hidden: [N] its true classes.
      num_classes: C.
    """
    label = jnp.asarray(logits[:, :num_classes].argmax(axis=1))
    of = lambda where: map(float, imbalance(label, num_classes, jnp.asarray(where)))
    return Imbalance(*of(hidden < num_classes), *of(hidden >= num_classes))
