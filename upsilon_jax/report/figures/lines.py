"""Lines over runs: against the ratio (E2, E5, E6), the epoch (E9a) and K (E9c)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from upsilon_jax.report import palette
from upsilon_jax.report.figures import style
from upsilon_jax.report.groups import BASELINE, Block, Groups, summary
from upsilon_jax.report.measures import Measure, labeled_as_id, num_foreign
from upsilon_jax.report.published import TITLES, benchmark_of, published_curve
from upsilon_jax.report.runs import Fields, Run
from upsilon_jax.report.statistics import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Methods that are the Υ-Model with a K of their own.
_CLUSTERS = {"rpl": 0, "upsilon_k1": 1}
_OF_K = ("method.name", "method.num_clusters")


def ratio(runs: Sequence[Run], measure: Measure) -> Figure:
    """A panel per data set and setting, a line per method, bands of one std.

    What the paper prints has a panel of its own beside it: at another scale numbers are
    far apart, and only the order can be compared.
    """
    groups = Groups([run for run in runs if run.mismatch is not None])
    if not groups.blocks:
        raise style.nothing("run with a known mismatch", "sweep over --mismatch first")
    found = [
        (block, paper)
        for block in groups.blocks
        for paper in (False, True)
        if not paper or _printed(groups, block, measure)
    ]
    figure, axes = style.panels(len(found), columns=2, size=(5, 3.8))
    for axis, (block, paper) in zip(axes, found, strict=True):
        (_draw_printed if paper else _draw_ratios)(axis, groups, block, measure)
        title = groups.title(block) if paper else groups.full_title(block)
        title = f"{title}, as printed in the paper" if paper else title
        axis.set_title(style.wrapped(title), fontsize=10)
        axis.set_ylabel(measure.title)
        lines = (np.asarray(line.get_xdata()) for line in axis.lines)
        style.ratio_axis(axis, {float(x) for line in lines for x in line})
    style.shared_legend(figure, axes)
    return figure


def _draw_ratios(axis: Axes, groups: Groups, block: Block, measure: Measure) -> None:
    ratios = [x for x in groups.ratios(block) if x is not None]
    for variant in groups.main(block):
        cells = {x: groups.serving(block, variant, x, measure) for x in ratios}
        points = {x: summary(r, measure) for x, r in _of_same_seeds(cells).items()}
        look = style.look_of(groups.first(block, variant).method)
        _line(axis, points, look, style.name_of(groups, block, variant))


def _of_same_seeds(cells: Mapping[float, list[Run]]) -> dict[float, list[Run]]:
    """The runs of a line, of the seeds that it has at all its points.

    Else it would rise and fall with the seeds. All are left if none is at all points.
    """
    seeds = [{run.result.seed for run in runs} for runs in cells.values() if runs]
    everywhere = set.intersection(*seeds) if seeds else set()
    return {
        x: [run for run in runs if run.result.seed in everywhere] or runs
        for x, runs in cells.items()
    }


def _printed(
    groups: Groups, block: Block, measure: Measure
) -> dict[str, Mapping[float | None, float]]:
    """Method → its published curve, of the methods there are."""
    benchmark = benchmark_of(groups.first(block))
    methods = [groups.first(block, variant).method for variant in groups.main(block)]
    curves = {m: published_curve(benchmark, m, measure.name) for m in methods}
    return {method: curve for method, curve in curves.items() if curve}


def _draw_printed(axis: Axes, groups: Groups, block: Block, measure: Measure) -> None:
    """Dashed, with open marks; a number for all ratios is a level line."""
    curves = _printed(groups, block, measure)
    known = {x for curve in curves.values() for x in curve if x is not None}
    where = sorted(known) or [x for x in groups.ratios(block) if x is not None]
    for method, curve in curves.items():
        look = style.look_of(method)
        heights = {x: curve[None] for x in where} if None in curve else curve
        shown = [x for x in where if x in heights]
        axis.plot(
            shown,
            [heights[x] for x in shown],
            color=look.color,
            marker=look.marker,
            markerfacecolor="white",
            ls="--",
            lw=1.2,
            ms=6,
            label=TITLES[method],
        )


def _line(
    axis: Axes, points: Mapping[float, Summary | None], look: style.Look, label: str
) -> None:
    """Means with marks, and a band of one standard deviation; gaps where none is."""
    found = {x: (s.mean, s.std) for x, s in points.items() if s and s.mean is not None}
    if not found:
        return
    where = sorted(found)
    means = [found[x][0] for x in where]
    spread = [found[x][1] or 0.0 for x in where]
    low = [mean - std for mean, std in zip(means, spread, strict=True)]
    high = [mean + std for mean, std in zip(means, spread, strict=True)]
    axis.plot(
        where,
        means,
        color=look.color,
        marker=look.marker,
        ls=look.line,
        lw=1.8,
        ms=7,
        label=label,
    )
    if len(where) > 1:
        axis.fill_between(where, low, high, color=look.color, alpha=0.15, lw=0)
    else:
        axis.errorbar(where, means, spread, color=look.color, capsize=4, lw=1.2)


def ood_share(runs: Sequence[Run], measure: Measure) -> Figure:
    """Of the foreign images in D_u, the share with an ID label, epoch by epoch."""
    del measure  # it is what the figure is named after
    groups = Groups([run for run in runs if num_foreign(run.result)])
    cells = [
        (block, at)
        for block in groups.blocks
        for at in groups.ratios(block)
        if any(_shares(groups.cell(block, v, at)) for v in groups.main(block))
    ]
    if not cells:
        raise style.nothing(
            "pseudo-labels on foreign images", "run pl, rpl or upsilon with a mismatch"
        )
    figure, axes = style.panels(len(cells), columns=2, size=(5, 3.6))
    for axis, (block, at) in zip(axes, cells, strict=True):
        for variant in groups.main(block):
            points = _shares(groups.cell(block, variant, at))
            if points:
                look = style.look_of(groups.first(block, variant).method)
                _epochs(axis, points, look, style.name_of(groups, block, variant))
        axis.set_title(style.wrapped(f"{groups.full_title(block)}, {at:.0%} foreign"))
        axis.title.set_fontsize(10)
        axis.set_xlabel("epoch")
        axis.set_ylabel("foreign images labeled as ID in %")
        axis.set_ylim(bottom=0)
    style.shared_legend(figure, axes)
    return figure


def _shares(runs: Sequence[Run]) -> dict[int, list[float]]:
    """Epoch → share in % of each run."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for entry in run.result.history:
            share = labeled_as_id(run.result, entry.labels)
            if share is not None:
                found.setdefault(entry.epoch, []).append(100 * share)
    return found


def _epochs(
    axis: Axes, points: Mapping[int, list[float]], look: style.Look, label: str
) -> None:
    where = sorted(points)
    means = [statistics.mean(points[x]) for x in where]
    low, high = ([f(points[x]) for x in where] for f in (min, max))
    axis.plot(
        where,
        means,
        color=look.color,
        ls=look.line,
        lw=1.8,
        marker=look.marker,
        markevery=max(1, len(where) // 8),
        ms=6,
        label=label,
    )
    axis.fill_between(where, low, high, color=look.color, alpha=0.15, lw=0)


def clusters(runs: Sequence[Run], measure: Measure) -> Figure:
    """Against the number of clusters K, a line per ratio; the baseline level."""
    groups = Groups(runs)
    by_k = {block: _by_clusters(groups, block) for block in groups.blocks}
    by_k = {block: found for block, found in by_k.items() if len(found) > 1}
    if not by_k:
        raise style.nothing(
            "Υ-Model with several numbers of clusters",
            "sweep over --config.method.num_clusters first",
        )
    figure, axes = style.panels(len(by_k), columns=2, size=(5, 3.8))
    for axis, (block, variants) in zip(axes, by_k.items(), strict=True):
        for number, at in enumerate(groups.ratios(block)):
            cells: dict[float, list[Run]] = {
                k: groups.cell(block, variant, at) for k, variant in variants.items()
            }
            points = {k: summary(r, measure) for k, r in _of_same_seeds(cells).items()}
            look = style.Look(
                palette.PALETTE[number % len(palette.PALETTE)],
                style.MARKERS[number % len(style.MARKERS)],
                style.LINES[number % len(style.LINES)],
            )
            name = measure.name if at is None else f"{100 * at:g} % foreign"
            _line(axis, points, look, name)
        # Beside the line of the highest ratio.
        cells[-1] = _serving_baseline(groups, block, measure)
        _baseline_level(axis, _of_same_seeds(cells)[-1], measure)
        axis.set_xscale("symlog", base=2, linthresh=1)
        axis.set_xticks(sorted(variants), [str(k) for k in sorted(variants)])
        axis.set_title(style.wrapped(groups.full_title(block)), fontsize=10)
        axis.set_xlabel("clusters K")
        axis.set_ylabel(measure.title)
    style.shared_legend(figure, axes)
    return figure


def _by_clusters(groups: Groups, block: Block) -> dict[int, Fields]:
    """K → variant, all alike but for K: the largest such family."""
    families: dict[Fields, dict[int, Fields]] = {}
    for method in ("upsilon", *_CLUSTERS):
        for variant in groups.variants(block, method):
            rest = tuple(pair for pair in variant if pair[0] not in _OF_K)
            own = method not in _CLUSTERS
            k = dict(variant)["method.num_clusters"] if own else _CLUSTERS[method]
            families.setdefault(rest, {}).setdefault(k, variant)
    return dict(sorted(max(families.values(), key=len, default={}).items()))


def _serving_baseline(groups: Groups, block: Block, measure: Measure) -> list[Run]:
    """At the highest ratio; none if it was not run."""
    variants, highest = groups.variants(block, BASELINE), groups.ratios(block)[-1]
    return groups.serving(block, variants[0], highest, measure) if variants else []


def _baseline_level(axis: Axes, runs: Sequence[Run], measure: Measure) -> None:
    level = summary(runs, measure)
    if level and level.mean is not None:
        look = style.look_of(BASELINE)
        axis.axhline(level.mean, color=look.color, ls=look.line, label="Baseline")
