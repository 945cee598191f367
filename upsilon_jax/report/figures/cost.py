"""Accuracy and time against clusters and Sinkhorn iterations (E16)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from upsilon_jax.report import palette
from upsilon_jax.report.figures import style
from upsilon_jax.report.groups import Block, Groups, summary
from upsilon_jax.report.measures import Measure, epoch_seconds
from upsilon_jax.report.runs import Fields, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REFERENCE = "pl"
_PAPER_COST = 1.7  # times PL: the paper's upper bound at 32 iterations
_OF_SOLVER = ("method.solver", "method.num_iters")
_AXES = {"num_clusters": "clusters K", "num_iters": "Sinkhorn iterations"}


def cost(runs: Sequence[Run], measure: Measure) -> Figure:
    """Two columns (K, iterations); two rows (a metric, time of an epoch / PL's)."""
    groups = Groups(runs)
    sweeps = [
        (block, ratio, field, points)
        for block in groups.blocks
        for ratio in groups.ratios(block)
        for field in _AXES
        if len(points := _family(groups, block, ratio, field)) > 1
    ]
    if not sweeps:
        raise style.nothing(
            "Υ-Model with several K or iterations",
            "sweep over --config.method.num_clusters or --config.method.num_iters",
        )
    figure, axes = style.panels(2 * len(sweeps), columns=2, size=(5, 3.4))
    for row, (block, ratio, field, points) in enumerate(sweeps):
        left, right = axes[2 * row : 2 * row + 2]
        cells = {x: groups.cell(block, v, ratio) for x, v in sorted(points.items())}
        reference = groups.variants(block, _REFERENCE)[:1]
        theirs = [run for v in reference for run in groups.cell(block, v, ratio)]
        like = next(iter(points.values()))
        exact = _converged(groups, block, ratio, like) if field == "num_iters" else []
        _draw_metric(left, cells, exact, measure)
        _draw_times(right, cells, exact, theirs)
        title = groups.full_title(block)
        left.set_title(title if ratio is None else f"{title}, {ratio:.0%} foreign")
        left.title.set_fontsize(9)
        for axis in (left, right):
            axis.set_xscale("log", base=2)
            axis.set_xticks(list(cells), [str(x) for x in cells])
            axis.minorticks_off()
            axis.set_xlabel(_AXES[field])
    style.shared_legend(figure, axes)
    return figure


def _family(
    groups: Groups, block: Block, ratio: float | None, field: str
) -> dict[int, Fields]:
    """Value → variant of the Υ-Model, all alike but for this field: the largest."""
    families: dict[Fields, dict[int, Fields]] = {}
    for variant in groups.variants(block, "upsilon"):
        fields = dict(variant)
        value = fields.pop(f"method.{field}", 0)
        iterates = fields.get("method.solver") == "sinkhorn" or field == "num_clusters"
        if value and iterates and groups.cell(block, variant, ratio):
            rest = tuple(fields.items())
            families.setdefault(rest, {})[value] = variant
    return max(families.values(), key=len, default={})


def _converged(
    groups: Groups, block: Block, ratio: float | None, like: Fields
) -> list[Run]:
    """Runs that are like a variant but balance their clusters to the end."""
    rest = lambda variant: [pair for pair in variant if pair[0] not in _OF_SOLVER]
    for variant in groups.variants(block, "upsilon"):
        exact = dict(variant).get("method.solver") == "newton"
        if exact and rest(variant) == rest(like):
            return groups.cell(block, variant, ratio)
    return []


def _draw_metric(
    axis: Axes,
    cells: Mapping[int, Sequence[Run]],
    converged: Sequence[Run],
    measure: Measure,
) -> None:
    said = {x: summary(cell, measure) for x, cell in cells.items()}
    found = {x: (s.mean, s.std) for x, s in said.items() if s and s.mean is not None}
    look = style.look_of("upsilon")
    axis.errorbar(
        list(found),
        [mean for mean, _ in found.values()],
        [std or 0 for _, std in found.values()],
        color=look.color,
        marker=look.marker,
        ms=9,
        capsize=4,
        label="Υ-Model",
    )
    level = summary(converged, measure) if converged else None
    if level and level.mean is not None:
        axis.axhline(level.mean, color=palette.GREEN, ls="-.", label="solver newton")
    axis.set_ylabel(measure.title)


def _draw_times(
    axis: Axes,
    cells: Mapping[int, Sequence[Run]],
    converged: Sequence[Run],
    reference: Sequence[Run],
) -> None:
    """Median over seeds, from the least to the greatest."""
    times = {x: _relative(cell, reference) for x, cell in cells.items()}
    times = {x: found for x, found in times.items() if found}
    if not times:
        text = "no run of pl with the same seed"
        axis.text(0.5, 0.5, text, ha="center", transform=axis.transAxes)
        return
    middle = [statistics.median(found) for found in times.values()]
    spread = [
        [m - min(found) for m, found in zip(middle, times.values(), strict=True)],
        [max(found) - m for m, found in zip(middle, times.values(), strict=True)],
    ]
    look = style.look_of("upsilon")
    axis.errorbar(
        list(times),
        middle,
        spread,
        color=look.color,
        marker=look.marker,
        ms=9,
        capsize=4,
    )
    if found := _relative(converged, reference):
        axis.axhline(statistics.median(found), color=palette.GREEN, ls="-.")
    axis.axhline(
        _PAPER_COST, color=palette.GREY, ls="--", label=f"paper: at most {_PAPER_COST}"
    )
    axis.axhline(1, color=palette.RED, ls=":", label="PL")
    axis.set_ylabel("time of an epoch / PL's")
    axis.set_ylim(bottom=0)


def _relative(runs: Sequence[Run], reference: Sequence[Run]) -> list[float]:
    """Ratios of times to runs of the reference with the same seed."""
    times = {run.result.seed: epoch_seconds(run.result) for run in reference}
    ratios = []
    for run in runs:
        ours, theirs = epoch_seconds(run.result), times.get(run.result.seed)
        if ours and theirs:
            ratios.append(ours / theirs)
    return ratios
