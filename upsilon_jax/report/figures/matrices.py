"""Confusion matrices of all test classes, foreign ones too (E3, E9b)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from upsilon_jax.report import palette
from upsilon_jax.report.figures import style
from upsilon_jax.report.groups import Groups
from upsilon_jax.report.measures import MEASURES, Measure
from upsilon_jax.report.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMES = 20  # classes whose names and numbers can be read
_LIKE = MEASURES["accuracy"]  # of test images too


def confusion(runs: Sequence[Run], measure: Measure) -> Figure:
    """A rectangle per method at the highest ratio: predicted ID by true class.

    Columns sum to 100 %: where the test images of a class go. Seeds are added up.
    """
    del measure
    groups = Groups([run for run in runs if run.result.confusion])
    cells = []
    for block in groups.blocks:
        highest = groups.ratios(block)[-1]
        for variant in groups.main(block):
            cell = groups.serving(block, variant, highest, _LIKE)
            cells += [(block, cell, highest)] if cell else []
    if not cells:
        raise style.nothing("finished run", "train one first")
    many = max(len(cell[0].result.classes) for _, cell, _ in cells) > _MOST_NAMES
    figure, axes = style.panels(len(cells), columns=2, size=(6.2, 4.2))
    for axis, (block, cell, ratio) in zip(axes, cells, strict=True):
        counts = np.sum([np.array(run.result.confusion) for run in cell], axis=0)
        image = _draw(axis, counts, cell[0].result.classes, many)
        where = groups.full_title(block)
        where += "" if ratio is None else f", {ratio:.0%} foreign"
        name = style.name_of(groups, block, cell[0].variant)
        axis.set_title(f"{name}\n{style.wrapped(where)}", fontsize=9)
    figure.colorbar(image, ax=axes, label="test images of the class in %", shrink=0.7)
    return figure


def _draw(axis: Axes, counts: np.ndarray, classes: Sequence[str], many: bool):
    """Counts [classes, ID classes], true by predicted."""
    num_id = counts.shape[1]
    shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axis.grid(False)
    image = axis.imshow(shares.T, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    axis.axvline(num_id - 0.5, color=palette.RED, lw=2)
    axis.set_xlabel("true class: ID, then (right of the line) OOD")
    axis.set_ylabel("predicted class")
    if many:
        return image
    names = style.shortened(classes)
    axis.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=8)
    axis.set_yticks(range(num_id), names[:num_id], fontsize=8)
    for (true, predicted), share in np.ndenumerate(shares):
        axis.text(
            true,
            predicted,
            f"{share:.0f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if share > 55 else "black",
        )
    return image
