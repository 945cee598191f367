"""A picture of one run: accuracy, losses, and what became of the pseudo-labels."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

# Colour-blind safe (Okabe & Ito), the same series in the same colour everywhere.
_BLUE, _ORANGE, _GREEN, _RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"


def save_curves(result: Mapping[str, Any], path: pathlib.Path) -> None:
    """Draws the history of a `result.json` into a PNG; nothing if there is none."""
    history = result["history"]
    if not history:
        return
    # The object interface: pyplot would keep global state and may want a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    panels = (
        (
            "test accuracy (ID classes)",
            (("accuracy", "EMA", _BLUE), ("accuracy_live", "live", _ORANGE)),
        ),
        (
            "training loss",
            (
                ("labeled_loss", "labeled", _BLUE),
                ("unlabeled_loss", "unlabeled", _ORANGE),
            ),
        ),
        (
            "pseudo-labels",
            (
                ("num_confident", "on ID classes", _GREEN),
                ("num_explored", "on clusters", _ORANGE),
            ),
        ),
    )
    for axis, (title, series) in zip(axes, panels, strict=True):
        _draw(axis, title, history, series)
    _draw_share(axes[2], history)
    config = result["config"]
    title = [f"{config['method']['name']} on {config['data']['name']}"]
    if config["data"]["mismatch"] is not None:
        title.append(f"mismatch {config['data']['mismatch']:.0%}")
    figure.suptitle(", ".join([*title, f"seed {result['seed']}"]))
    figure.savefig(path, dpi=110)


def _draw(axis, title, history, series) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("epoch")
    axis.grid(alpha=0.3)
    for key, label, color in series:
        points = [(e["epoch"], e[key]) for e in history if e.get(key) is not None]
        if points:
            axis.plot(*zip(*points, strict=True), label=label, color=color, lw=1.5)
    if axis.lines:
        axis.legend(fontsize=8, frameon=False)
    else:
        axis.text(0.5, 0.5, "none", ha="center", transform=axis.transAxes)


def _draw_share(axis, history) -> None:
    """The share of ID pseudo-labels that sit on OOD images, on an axis of its own."""
    points = [
        (e["epoch"], e["ood_share"]) for e in history if e.get("ood_share") is not None
    ]
    if not points:
        return
    right = axis.twinx()
    right.plot(*zip(*points, strict=True), color=_RED, lw=1.2, ls="--")
    right.set_ylim(0, 1)
    right.set_ylabel("OOD share of ID labels", color=_RED, fontsize=8)
