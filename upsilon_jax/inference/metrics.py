"""What is measured on predictions and on pseudo-labels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from upsilon_jax.kernels.confidence import id_confidence
from upsilon_jax.kernels.imbalance import imbalance
from upsilon_jax.methods.selection import estimate_foreign
from upsilon_jax.report.open_set import auroc
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
    labels: PseudoLabels,
    hidden: np.ndarray,
    num_classes: int,
    num_clusters: int,
    previous: PseudoLabels | None = None,
) -> Labels:
    """Counts of P, and what the truth says of it where that is known.

    Args:
      labels: the current P over D_u.
      hidden: [N] true classes of D_u, -1 unknown; only ever used for diagnostics.
      num_classes: C.
      num_clusters: K.
      previous: P before the refresh, if there was one.
    """
    label = labels_of(labels)
    confident, explored = (0 <= label) & (label < num_classes), label >= num_classes
    counts = np.bincount(label[confident], minlength=num_classes)
    clusters = np.bincount(label[explored] - num_classes, minlength=num_clusters)
    weights = np.asarray(labels.weight, np.float64)[explored]
    sizes = np.bincount(label[explored] - num_classes, weights, num_clusters)
    found = Labels(
        num_selected=int((label >= 0).sum()),
        num_confident=int(confident.sum()),
        per_class=int(counts.min()),
        num_explored=int(explored.sum()),
        cluster_counts=clusters.tolist() if num_clusters else None,
        effective_clusters=effective_number(sizes) if num_clusters else None,
    )
    if previous is not None:
        changed = int((label != labels_of(previous)).sum())
        found = found._replace(num_changed=changed)
    if np.any(hidden < 0):
        return found
    foreign = hidden >= num_classes
    right = (label == hidden)[confident & ~foreign]
    found = found._replace(
        ood_share=_share(foreign[confident]), pseudo_accuracy=_share(right)
    )
    if not num_clusters:
        return found
    both = explored & foreign
    return found._replace(
        explored_precision=_share(foreign[explored]),
        explored_recall=_share(explored[foreign]),
        cluster_purity=purity(label[both], hidden[both]),
        cluster_nmi=normalized_mutual_information(label[both], hidden[both]),
    )


def labels_of(labels: PseudoLabels) -> np.ndarray:
    """[N] labels, -1 for images outside P."""
    return np.where(np.asarray(labels.weight) > 0, np.asarray(labels.label), -1)


def _share(part: np.ndarray) -> float | None:
    """Of [n] booleans those that are true; None of nothing."""
    return float(part.mean()) if part.size else None


def purity(cluster: np.ndarray, label: np.ndarray) -> float | None:
    """Σ_k max_c n_kc / n, n_kc images of class c in cluster k; None of no images."""
    if not cluster.size:
        return None
    return float(_contingency(cluster, label).max(axis=1).sum() / cluster.size)


def effective_number(sizes: np.ndarray) -> float | None:
    """exp(H) of the shares of [K] sizes, from 1 to K; None if all are 0."""
    if not sizes.sum():
        return None
    return float(np.exp(_entropy(sizes / sizes.sum())))


def _entropy(p: np.ndarray) -> float:
    return -np.sum(p * np.log(p, where=p > 0, out=np.zeros_like(p)))


def normalized_mutual_information(
    cluster: np.ndarray, label: np.ndarray
) -> float | None:
    """2 I(k; c) / (H(k) + H(c)) of two labelings of the same images.

    One cluster and one class agree completely: 1. None of no images.
    """
    if not cluster.size:
        return None
    joint = _contingency(cluster, label) / cluster.size
    marginals = joint.sum(axis=1), joint.sum(axis=0)
    of_cluster, of_label = map(_entropy, marginals)
    if not of_cluster + of_label:
        return 1.0
    information = max(of_cluster + of_label - _entropy(joint), 0.0)
    return float(2 * information / (of_cluster + of_label))


def _contingency(cluster: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Counts of images, a row a cluster that occurs and a column a class."""
    clusters, row = np.unique(cluster, return_inverse=True)
    classes, column = np.unique(label, return_inverse=True)
    counts = np.zeros((len(clusters), len(classes)), np.int64)
    np.add.at(counts, (row, column), 1)
    return counts


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
