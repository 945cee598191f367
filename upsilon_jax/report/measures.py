"""What a table can show of a result."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

from upsilon_jax.workdir.schema import Labels, Result


class Measure(NamedTuple):
    """A number of a result, and how it is shown."""

    name: str
    title: str
    value: Callable[[Result], float | None]
    scale: float = 100.0  # shown in percent
    decimals: int = 2
    more_is_better: bool = True
    of_unlabeled: bool = False  # of images in D_u, also where none is trained on

    def of(self, result: Result) -> float | None:
        """As it is shown; None if it was not measured."""
        value = self.value(result)
        return None if value is None else self.scale * value


def _of_labels(field: str) -> Callable[[Result], float | None]:
    def value(result: Result) -> float | None:
        labels = _all_labels(result)
        return getattr(labels[-1], field) if labels else None

    return value


def _all_labels(result: Result) -> list[Labels]:
    """Epoch by epoch, from the first with labels."""
    return [entry.labels for entry in result.history if entry.labels]


def num_foreign(result: Result) -> float:
    """Foreign images in D_u; 0 where that is not known from the config."""
    data = result.config["data"]
    if data.get("ood_imbalance", 1) != 1:  # then D_u may be smaller than was asked for
        return 0
    return (data.get("mismatch") or 0) * (data.get("num_unlabeled") or 0)


def labeled_as_id(result: Result, labels: Labels | None) -> float | None:
    """Of the foreign images in D_u, the share with the label of an ID class.

    None where the truth is not known, or there are no labels.
    """
    if not labels or not num_foreign(result):
        return None
    if labels.ood_share is None and labels.num_confident:
        return None
    return (labels.ood_share or 0.0) * labels.num_confident / num_foreign(result)


def _last_labeled_as_id(result: Result) -> float | None:
    labels = _all_labels(result)
    return labeled_as_id(result, labels[-1]) if labels else None


def _first_labeled_as_id(result: Result) -> float | None:
    """At the first refresh: before it there are no labels."""
    refreshed = [of for of in _all_labels(result) if of.num_changed is not None]
    return labeled_as_id(result, refreshed[0]) if refreshed else None


def _on_one_class(result: Result) -> float | None:
    """Of foreign test images, the share on the ID class that has the most of them."""
    if not result.confusion:
        return None
    num_id = len(result.confusion[0])
    counts = [sum(column) for column in zip(*result.confusion[num_id:], strict=True)]
    return max(counts) / sum(counts) if sum(counts) else None


def _of_open_set(field: str) -> Callable[[Result], float | None]:
    return lambda result: result.open_set and getattr(result.open_set, field)


def _raw(
    name: str, title: str, decimals: int, value: Callable[[Result], float | None]
) -> Measure:
    return Measure(name, title, value, scale=1.0, decimals=decimals)


def _imbalance(field: str, title: str) -> Measure:
    """Of the labels that the network of a run gives to images in D_u."""
    return Measure(
        field,
        title,
        lambda result: result.imbalance and getattr(result.imbalance, field),
        scale=1.0,
        decimals=4,
        more_is_better=False,
        of_unlabeled=True,
    )


def _separation(prefix: str, images: str) -> tuple[Measure, ...]:
    """How well ID test images are told from others."""
    of = lambda field: _of_open_set(prefix + field)
    rocs = of("auroc") if prefix else lambda result: result.auroc
    return (
        _raw(f"{prefix}auroc", f"AUROC of ID against {images}", 3, value=rocs),
        Measure(
            f"{prefix}fpr95",
            f"{images} that pass where 95 % of ID test images do in %",
            of("fpr95"),
            more_is_better=False,
        ),
        _raw(f"{prefix}aupr", f"AUPR of ID against {images}", 3, value=of("aupr")),
    )


_ALL = (
    Measure("accuracy", "test accuracy in %", lambda result: result.accuracy),
    Measure(
        "accuracy_live",
        "test accuracy of the live model in %",
        lambda result: result.accuracy_live,
    ),
    *_separation("", "foreign test images"),
    *_separation("unseen_", "images of data.unseen"),
    Measure(
        "balanced_accuracy",
        "balanced accuracy over the ID classes and foreign in %",
        _of_open_set("balanced_accuracy"),
    ),
    Measure(
        "accuracy_all",
        "accuracy over all classes, clusters matched, in %",
        _of_open_set("accuracy_all"),
    ),
    Measure(
        "accuracy_old",
        "accuracy on ID images, clusters matched, in %",
        _of_open_set("accuracy_old"),
    ),
    Measure(
        "accuracy_new",
        "accuracy on foreign images, clusters matched, in %",
        _of_open_set("accuracy_new"),
    ),
    Measure(
        "calibration_error",
        "expected calibration error on ID test images in %",
        _of_open_set("calibration_error"),
        more_is_better=False,
    ),
    Measure(
        "ood_share",
        "foreign images among the last ID pseudo-labels in %",
        _of_labels("ood_share"),
        more_is_better=False,
    ),
    Measure(
        "pseudo_accuracy",
        "last ID pseudo-labels of ID images that are right in %",
        _of_labels("pseudo_accuracy"),
    ),
    _raw(
        "per_class",
        "last ID pseudo-labels of the class with the fewest",
        1,
        value=_of_labels("per_class"),
    ),
    Measure(
        "explored_precision",
        "foreign images among the last cluster labels in %",
        _of_labels("explored_precision"),
    ),
    Measure(
        "explored_recall",
        "foreign unlabeled images with a cluster label in %",
        _of_labels("explored_recall"),
    ),
    Measure(
        "cluster_purity",
        "foreign images of the commonest class of their cluster in %",
        _of_labels("cluster_purity"),
    ),
    _raw(
        "cluster_nmi",
        "mutual information of clusters and foreign classes, normalised",
        3,
        value=_of_labels("cluster_nmi"),
    ),
    _raw(
        "effective_clusters",
        "effective number of clusters",
        2,
        value=_of_labels("effective_clusters"),
    ),
    Measure(
        "ood_labeled",
        "foreign unlabeled images with an ID pseudo-label in %",
        _last_labeled_as_id,
        more_is_better=False,
    ),
    Measure(
        "ood_labeled_first",
        "foreign unlabeled images with an ID pseudo-label at the first refresh in %",
        _first_labeled_as_id,
        more_is_better=False,
    ),
    Measure(
        "ood_on_one",
        "foreign test images on one and the same ID class in %",
        _on_one_class,
        more_is_better=False,
    ),
    _imbalance("kl_id", "KL of labels from uniform, ID images"),
    _imbalance("kl_ood", "KL of labels from uniform, OOD images"),
    _imbalance("ratio_id", "largest / smallest class, ID images"),
    _imbalance("ratio_ood", "largest / smallest class, OOD images"),
)
MEASURES = {measure.name: measure for measure in _ALL}


def step_seconds(result: Result) -> float | None:
    """Median over the second half of training, when all parts of a method run."""
    history = result.history
    if not history:
        return None
    times = [entry.train_seconds for entry in history[len(history) // 2 :]]
    return statistics.median(times) / history[0].step


def epoch_seconds(result: Result) -> float | None:
    """Mean over the second half of training, of steps and refreshes."""
    second_half = result.history[len(result.history) // 2 :]
    if not second_half:
        return None
    return statistics.mean(e.train_seconds + e.refresh_seconds for e in second_half)
