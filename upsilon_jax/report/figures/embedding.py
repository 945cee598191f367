"""Where images lie to one another in the eyes of a network (E12).

As in the paper, these are features of the test images of all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from upsilon_jax.errors import UserError
from upsilon_jax.report import palette
from upsilon_jax.report.figures import style
from upsilon_jax.report.groups import Block, Groups
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.results import findings_of
from upsilon_jax.report.runs import Run
from upsilon_jax.workdir.findings import Findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 1500  # t-SNE takes minutes for more
_MOST_CLASSES = 20


def tsne(runs: Sequence[Run], measure: Measure) -> Figure:
    """A panel per method: its first seed at the highest ratio."""
    del measure
    groups = Groups(runs)
    chosen: list[tuple[Block, Run, Findings]] = []
    for block in groups.blocks:
        for variant in groups.main(block):
            cell = groups.cell(block, variant, groups.ratios(block)[-1])
            first = min(cell, key=lambda run: run.result.seed, default=None)
            found = findings_of(first) if first else None
            if first and found and found.test_features is not None:
                chosen.append((block, first, found))
    if not chosen:
        raise style.nothing(
            "findings.npz with features of the test images",
            "only runs trained anew have them, summaries do not",
        )
    figure, axes = style.panels(len(chosen), size=(4.2, 4))
    for axis, (block, run, found) in zip(axes, chosen, strict=True):
        _draw(axis, run, found)
        name = style.name_of(groups, block, run.variant)
        axis.set_title(f"{name}\n{style.wrapped(groups.full_title(block))}", fontsize=9)
    figure.suptitle("t-SNE of the features of test images", fontsize=10)
    style.shared_legend(figure, axes)
    return figure


def _draw(axis: Axes, run: Run, found: Findings) -> None:
    assert found.test_features is not None
    known = np.flatnonzero(found.test.truth >= 0)
    rng = np.random.default_rng(0)
    rows = rng.permutation(known)[:_MOST_POINTS]
    truth = found.test.truth[rows]
    flat = _embed(found.test_features[rows].astype(np.float32))
    axis.grid(False)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(True)
    axis.spines[:].set_color(palette.GREY)
    classes, confusion = run.result.classes, run.result.confusion
    num_id = len(confusion[0]) if confusion else 0
    if len(classes) > _MOST_CLASSES:
        _scatter(axis, flat[truth < num_id], 0, "ID", True)
        _scatter(axis, flat[truth >= num_id], 1, "OOD", False)
        return
    for label in np.unique(truth):
        known_class = label < num_id
        name = classes[label] + ("" if known_class else " (OOD)")
        number = label if known_class else label - num_id
        _scatter(axis, flat[truth == label], number, name, known_class)


def _embed(points: np.ndarray) -> np.ndarray:
    """[n, d] → [n, 2]."""
    try:  # late: it takes a second to load
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits  # which scikit-learn brings along
    except ImportError as error:
        raise UserError("t-SNE is scikit-learn's: pip install scikit-learn") from error

    perplexity = min(30.0, (len(points) - 1) / 3)
    # Its threads wait for one another after every step: on busy cores for minutes.
    with threadpool_limits(limits=1):
        embedding = TSNE(perplexity=perplexity, init="pca", random_state=0)
        return embedding.fit_transform(points)


def _scatter(axis: Axes, points: np.ndarray, number: int, name: str, known: bool):
    """ID classes are filled and coloured, OOD classes open and grey."""
    marker = style.MARKERS[number % len(style.MARKERS)]
    color = palette.PALETTE[number % len(palette.PALETTE)]
    greys = ("#222222", "#555555", "#888888", "#AAAAAA")
    x, y = points.T
    axis.scatter(
        x,
        y,
        s=14,
        marker=marker,
        facecolor=color if known else "none",
        edgecolor=color if known else greys[number % len(greys)],
        lw=0.4 if known else 0.8,
        alpha=0.8,
        label=name,
    )
