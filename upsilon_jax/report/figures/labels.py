"""On which classes plain labels fall: histograms (E1), random class splits (E14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from upsilon_jax.report import palette
from upsilon_jax.report.figures import style
from upsilon_jax.report.groups import BASELINE, Groups
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.published import TITLES, benchmark_of, find_published
from upsilon_jax.report.results import unlabeled_confusion
from upsilon_jax.report.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMES = 20  # classes whose names can be read below bars
_WHAT = "KL of the labels from uniform"


def histograms(runs: Sequence[Run], measure: Measure) -> Figure:
    """Labels of the ID and of the OOD images of D_u; both imbalances in numbers.

    Of the baseline, which is the paper's pre-trained network, if it was run, else of
    all methods.
    """
    del measure
    counted = [(run, unlabeled_confusion(run)) for run in runs]
    counts = {id(run): count for run, count in counted if count is not None}
    usable = [run for run, _ in counted if id(run) in counts]
    groups = Groups([r for r in usable if r.method == BASELINE] or usable)
    cells = [
        cell
        for block in groups.blocks
        for variant in groups.variants(block)
        for ratio in groups.ratios(block)
        if (cell := groups.cell(block, variant, ratio))
    ]
    if not cells:
        raise style.nothing(
            "run with findings.npz and known classes",
            "train a baseline with this version",
        )
    figure, axes = style.panels(3 * len(cells), size=(4, 3.2))
    for row, cell in enumerate(cells):
        title = groups.full_title((cell[0].data, cell[0].setting))
        where = f"{TITLES.get(cell[0].method, cell[0].method)}, {title}"
        _bars(axes[3 * row], cell, [counts[id(run)] for run in cell], True)
        _bars(axes[3 * row + 1], cell, [counts[id(run)] for run in cell], False)
        axes[3 * row].set_title(f"{where}:\nID images", fontsize=9)
        axes[3 * row + 1].set_title(
            f"{cell[0].mismatch:.0%} of D_u foreign:\nOOD images", fontsize=9
        )
        _imbalances(axes[3 * row + 2], cell)
    return figure


def _bars(axis: Axes, cell: Sequence[Run], counts: list[np.ndarray], known: bool):
    """Shares of the labels, mean and std over seeds; the line is an even share."""
    num_id = counts[0].shape[1]
    rows = slice(0, num_id) if known else slice(num_id, None)
    totals = [count[rows].sum(0) for count in counts]
    shares = np.array([100 * t / t.sum() for t in totals if t.sum()])
    if not len(shares):
        axis.text(0.5, 0.5, "none in D_u", ha="center", transform=axis.transAxes)
        axis.set_xticks([])
        axis.set_yticks([])
        return
    axis.bar(
        range(num_id),
        shares.mean(0),
        yerr=shares.std(0, ddof=1) if len(shares) > 1 else None,
        color=palette.BLUE if known else palette.ORANGE,
        hatch=None if known else "//",
        edgecolor="black",
        lw=0.6,
        capsize=3,
    )
    axis.axhline(100 / num_id, color="black", ls="--", lw=1)
    axis.set_ylabel("share of labels in %")
    axis.set_ylim(bottom=0)
    if num_id <= _MOST_NAMES:
        names = style.shortened(cell[0].result.classes[:num_id])
        axis.set_xticks(range(num_id), names, rotation=35, ha="right", fontsize=8)
    else:
        axis.set_xlabel("class")


def _imbalances(axis: Axes, cell: Sequence[Run]) -> None:
    """KL of labels on ID and OOD images, the paper's beside ours where it has them."""
    benchmark = benchmark_of(cell[0])
    kinds = ("kl_id", "kl_ood")
    aside = 0.2 if find_published("E13", benchmark, BASELINE, None, "kl_id") else 0.0
    above: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8}
    for at, kind in enumerate(kinds):
        found = [getattr(run.result.imbalance, kind) for run in cell]
        found = [value for value in found if value is not None]
        color = (palette.BLUE, palette.ORANGE)[at]
        if found:
            mean = float(np.mean(found))
            spread = np.std(found, ddof=1) if len(found) > 1 else None
            axis.bar(
                at - aside,
                mean,
                0.38,
                yerr=spread,
                color=color,
                hatch=(None, "//")[at],
                edgecolor="black",
                lw=0.6,
                capsize=3,
            )
            top = mean + (spread or 0)
            axis.text(at - aside, top, f"{mean:.4f}", **above)
        printed = find_published("E13", benchmark, BASELINE, None, kind)
        if printed and printed.number is not None:
            axis.bar(
                at + aside,
                printed.number,
                0.38,
                color="white",
                edgecolor=color,
                ls="--",
            )
            text = f"{printed.value}\npaper"
            axis.text(at + aside, printed.number, text, **above)
    axis.set_xticks(range(2), ["ID images", "OOD images"])
    axis.set_title(_WHAT, fontsize=9)
    axis.margins(x=0.2, y=0.2)
    axis.set_ylim(bottom=0)


def splits(runs: Sequence[Run], measure: Measure) -> Figure:
    """Imbalance on ID and OOD images over random choices of the classes.

    A dot is a run of the baseline with classes of its own; lines join its two dots.
    """
    del measure
    measured = [
        run
        for run in runs
        if run.method == BASELINE
        and run.result.imbalance
        and None not in (run.result.imbalance.kl_id, run.result.imbalance.kl_ood)
    ]
    groups = Groups(measured)
    cells = {}
    for block in groups.blocks:
        for variant in groups.variants(block):
            for ratio in groups.ratios(block):
                cell = groups.cell(block, variant, ratio)
                if len({tuple(run.result.classes) for run in cell}) > 1:
                    title = f"{_data_title(cell[0])}\n{ratio:.0%} foreign"
                    setting = groups.wording.both(cell[0])
                    cells["\n".join(filter(None, (title, setting)))] = cell
    if not cells:
        raise style.nothing(
            "baseline over several class splits",
            "run several seeds with --config.data.id_classes=\"('random:6',)\" "
            "--config.data.ood_classes=\"('rest',)\"",
        )
    figure, (axis,) = style.panels(1, size=(2.2 + 2.4 * len(cells), 4))
    for place, cell in enumerate(cells.values()):
        _draw_splits(axis, 2 * place, cell)
    axis.set_xticks(
        [2 * place + 0.5 for place in range(len(cells))], list(cells), fontsize=8
    )
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_ylabel(_WHAT)
    style.shared_legend(figure, [axis])
    return figure


def _data_title(run: Run) -> str:
    data = run.result.config["data"]
    num_id = len((run.result.confusion or [[]])[0])
    return f"{data['name']} ({num_id}/{len(run.result.classes) - num_id})"


def _draw_splits(axis: Axes, left: float, cell: Sequence[Run]) -> None:
    measured = [run.result.imbalance for run in cell]
    pairs = np.array([(found.kl_id, found.kl_ood) for found in measured if found])
    pairs = np.maximum(pairs, 1e-5)  # on a logarithmic axis
    axis.plot([left + 0.2, left + 0.8], pairs.T, color=palette.GREY, lw=0.6, alpha=0.6)
    looks = (
        (0.2, palette.BLUE, "o", "ID images"),
        (0.8, palette.ORANGE, "s", "OOD images"),
    )
    for column, (shift, color, marker, name) in enumerate(looks):
        where = np.full(len(pairs), left + shift)
        axis.scatter(
            where,
            pairs[:, column],
            color=color,
            marker=marker,
            edgecolor="black",
            lw=0.5,
            zorder=3,
            label=name,
        )
        middle = np.median(pairs[:, column])
        ends = (left + shift - 0.18, left + shift + 0.18)
        axis.plot(ends, [middle, middle], color="black", lw=2.5, label="median")
