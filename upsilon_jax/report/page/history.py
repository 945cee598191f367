"""How training went: curves over its epochs, axes in % where they are shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from upsilon_jax.report.page.charts import Line, line_chart
from upsilon_jax.report.page.curves import of_labels, points
from upsilon_jax.report.page.markup import Markup, tag
from upsilon_jax.workdir.schema import Entry


class Chart(NamedTuple):
    """A chart, its axis and its lines: (label, color, value of an entry)."""

    title: str
    y_label: str
    share: bool
    lines: Sequence[tuple[str, int, Callable[[Entry], float | None]]]


def _metric(name: str) -> Callable[[Entry], float | None]:
    return lambda entry: entry.metrics.get(name)


_CHARTS = (
    Chart(
        "Accuracy on test images",
        "right, %",
        True,
        (
            ("averaged weights", 1, lambda entry: entry.accuracy),
            ("live weights", 2, lambda entry: entry.accuracy_live),
        ),
    ),
    Chart(
        "Training loss",
        "loss",
        False,
        (
            ("labeled images", 1, _metric("labeled_loss")),
            ("unlabeled images", 2, _metric("unlabeled_loss")),
        ),
    ),
    Chart(
        "Pseudo-labels",
        "images",
        False,
        (
            ("on the classes", 3, of_labels("num_confident")),
            ("on foreign groups", 2, of_labels("num_explored")),
        ),
    ),
    Chart(
        "How good the pseudo-labels are",
        "share, %",
        True,
        (
            ("foreign images among them", 4, of_labels("ood_share")),
            ("right on known images", 3, of_labels("pseudo_accuracy")),
        ),
    ),
)


def curves(history: Sequence[Entry]) -> Markup | None:
    """The charts that have something to show."""
    shown = []
    for title, y_label, share, series in _CHARTS:
        lines = [
            Line(label, color, points(history, value)) for label, color, value in series
        ]
        if any(line.points for line in lines):
            shown.append(
                line_chart(title, lines, y_label=y_label, x_label="epoch", share=share)
            )
    return tag("div", shown, class_="charts") if shown else None
