"""A picture of one run: accuracy, losses, and what became of the pseudo-labels."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from upsilon_jax.report.palette import BLUE, GREEN, ORANGE, RED
from upsilon_jax.workdir.schema import Entry, Result
from upsilon_jax.workdir.whole import written_whole


class Series(NamedTuple):
    """A line in a panel."""

    label: str
    color: str
    value: Callable[[Entry], float | None]


def of_labels(field: str) -> Callable[[Entry], float | None]:
    """A field of the pseudo-labels of an epoch, where there are any."""
    return lambda entry: entry.labels and getattr(entry.labels, field)


_PANELS = {
    "test accuracy (ID classes)": (
        Series("EMA", BLUE, lambda entry: entry.accuracy),
        Series("live", ORANGE, lambda entry: entry.accuracy_live),
    ),
    "training loss": (
        Series("labeled", BLUE, lambda entry: entry.metrics.get("labeled_loss")),
        Series("unlabeled", ORANGE, lambda entry: entry.metrics.get("unlabeled_loss")),
    ),
    "pseudo-labels": (
        Series("on ID classes", GREEN, of_labels("num_confident")),
        Series("on clusters", ORANGE, of_labels("num_explored")),
    ),
}


def save_curves(result: Result, path: pathlib.Path) -> None:
    """Draws the history of a result into a PNG; nothing if there is none."""
    if not result.history:
        return
    # The object interface: pyplot would keep global state and may want a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, (panel, series) in zip(axes, _PANELS.items(), strict=True):
        _draw(axis, panel, result.history, series)
    _draw_share(axes[2], result.history)
    config = result.config
    title = [f"{config['method']['name']} on {config['data']['name']}"]
    mismatch = config["data"].get("mismatch")
    if mismatch is not None:
        title.append(f"mismatch {mismatch:.0%}")
    figure.suptitle(", ".join([*title, f"seed {result.seed}"]))
    with written_whole(path) as partial:
        figure.savefig(partial, dpi=110, format="png")


def points(history: Sequence[Entry], value: Callable) -> list[tuple[int, float]]:
    """(epoch, value) where there is one."""
    values = ((entry.epoch, value(entry)) for entry in history)
    return [pair for pair in values if pair[1] is not None]


def _draw(axis, title: str, history: Sequence[Entry], series: Sequence[Series]) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("epoch")
    axis.grid(alpha=0.3)
    for label, color, value in series:
        if found := points(history, value):
            axis.plot(*zip(*found, strict=True), label=label, color=color, lw=1.5)
    if axis.lines:
        axis.legend(fontsize=8, frameon=False)
    else:
        axis.text(0.5, 0.5, "none", ha="center", transform=axis.transAxes)


def _draw_share(axis, history: Sequence[Entry]) -> None:
    """The share of ID pseudo-labels that sit on OOD images, on an axis of its own."""
    found = points(history, of_labels("ood_share"))
    if not found:
        return
    right = axis.twinx()
    right.plot(*zip(*found, strict=True), color=RED, lw=1.2, ls="--")
    right.set_ylim(0, 1)
    right.set_ylabel("OOD share of ID labels", color=RED, fontsize=8)
