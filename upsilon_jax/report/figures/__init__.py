"""The figures of the paper by name, and one of our own, from our runs."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from upsilon_jax.report.figures import style
from upsilon_jax.report.figures.cost import cost
from upsilon_jax.report.figures.embedding import tsne
from upsilon_jax.report.figures.gains import plug_in
from upsilon_jax.report.figures.labels import histograms, splits
from upsilon_jax.report.figures.lines import clusters, ood_share, ratio
from upsilon_jax.report.figures.matrices import confusion
from upsilon_jax.report.measures import MEASURES, Measure
from upsilon_jax.report.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[Sequence[Run], Measure], "Figure"]

FIGURES: Mapping[str, Draw] = {
    "histograms": histograms,
    "ratio": ratio,
    "confusion": confusion,
    "ood_share": ood_share,
    "clusters": clusters,
    "tsne": tsne,
    "splits": splits,
    "cost": cost,
    "plug_in": plug_in,
}


def draw_figure(
    name: str, runs: Sequence[Run], path: pathlib.Path, metric: str = "accuracy"
) -> list[pathlib.Path]:
    """Draws a figure and returns the files: PNG and SVG, or what the path ends in.

    Args:
      name: a key of FIGURES.
      runs: what it is drawn from.
      path: without an ending both are written.
      metric: a key of MEASURES, of figures that can show any.

    Raises:
      UserError: there is no run for it; one line says what is missing.
    """
    with style.settings():
        return style.save(FIGURES[name](runs, MEASURES[metric]), path)
