"""Predictions over whole sets, and what is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from upsilon_jax.kernels.confidence import id_confidence
from upsilon_jax.kernels.imbalance import imbalance
from upsilon_jax.runtime import sharding
from upsilon_jax.types import Outputs, PseudoLabels


def predict_all(
    predict: Callable, params, stats, chunks: Iterable[jax.Array], mesh: Mesh
) -> Outputs:
    """Outputs for uint8 chunks [batch, H, W, C], joined: [n, ...] sharded by rows."""
    parts = [predict(params, stats, chunk) for chunk in chunks]
    join = lambda *part: jax.device_put(jnp.concatenate(part), sharding.rows(mesh))
    return jax.tree.map(join, *parts)


def accuracy(logits: np.ndarray, label: np.ndarray, num_classes: int) -> float:
    """Share of rows with argmax_{y < C} f(y|x) = label (Eq. 3): ID classes only."""
    return float(np.mean(logits[:, :num_classes].argmax(axis=1) == label))


def confusion(logits: np.ndarray, label: np.ndarray, num_classes: int) -> np.ndarray:
    """[classes, C] counts: true class (OOD classes too) by predicted ID class."""
    counts = np.zeros((int(label.max()) + 1, num_classes), np.int64)
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


def describe_pseudo_labels(
    labels: PseudoLabels, hidden: np.ndarray | None, num_classes: int
) -> dict[str, float]:
    """Counts of P for the log, and what the truth says of it where it is known.

    Args:
      labels: the current P over D_u.
      hidden: [N] true classes of D_u, -1 unknown; only ever used for diagnostics.
      num_classes: C.

    Returns:
      `num_selected`, `num_confident` (ID labels), `per_class` (the least count of an ID
      class: the paper's N), `num_explored` (the paper's M), and with a known truth
      `ood_share` (of ID labels that sit on OOD images) and `pseudo_accuracy` (of ID
      labels on ID images); a share of nothing is None.
    """
    label = np.asarray(labels.label)
    selected = np.asarray(labels.weight) > 0
    confident = selected & (label < num_classes)
    counts = np.bincount(label[confident], minlength=num_classes)
    found = {
        "num_selected": int(selected.sum()),
        "num_confident": int(confident.sum()),
        "per_class": int(counts.min()),
        "num_explored": int((selected & (label >= num_classes)).sum()),
    }
    if hidden is None or np.any(hidden < 0):
        return found
    foreign = hidden[confident] >= num_classes
    right = label[confident][~foreign] == hidden[confident][~foreign]
    share = lambda part: float(part.mean()) if part.size else None
    return {**found, "ood_share": share(foreign), "pseudo_accuracy": share(right)}


def describe_test(
    logits: np.ndarray, label: np.ndarray, num_classes: int
) -> dict[str, Any]:
    """Confusion of all test classes, and how well c(x) tells ID from OOD images.

    Args:
      logits: [M, T] of test images of ID and OOD classes.
      label: [M] their classes, OOD from C on.
      num_classes: C.

    Returns:
      `confusion` [classes, C], and `auroc` of c(x), None without OOD images.
    """
    rank = np.asarray(id_confidence(jnp.asarray(logits), num_classes).rank)
    return {
        "confusion": confusion(logits, label, num_classes).tolist(),
        "auroc": auroc(rank, label < num_classes),
    }


def describe_imbalance(
    logits: np.ndarray, hidden: np.ndarray | None, num_classes: int
) -> dict[str, float]:
    """Imbalance (appendix C) of plain argmax labels on ID and on OOD images of D_u."""
    if hidden is None or np.any(hidden < 0):
        return {}
    label = logits[:, :num_classes].argmax(axis=1)
    found = {}
    for name, where in (("id", hidden < num_classes), ("ood", hidden >= num_classes)):
        kl, ratio = imbalance(jnp.asarray(label), num_classes, jnp.asarray(where))
        found |= {f"kl_{name}": float(kl), f"ratio_{name}": float(ratio)}
    return found
