"""The curve of a measure over the mismatch ratio in three numbers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from upsilon_jax.errors import UserError
from upsilon_jax.report.groups import BASELINE, Block, Groups, values
from upsilon_jax.report.layout import Cell, Row, Table
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.notes import ratio_title
from upsilon_jax.report.runs import Fields, Run
from upsilon_jax.report.statistics import paired, summarize
from upsilon_jax.workdir.schema import DIVERGED

Curve = Mapping[float, float]  # mismatch ratio → value, at least two, in order


def area(curve: Curve) -> float:
    """Mean height: ∫ y dr / (r_n - r_1), straight lines between the ratios."""
    points = list(curve.items())
    steps = zip(points, points[1:], strict=False)
    total = sum((r2 - r1) * (y1 + y2) / 2 for (r1, y1), (r2, y2) in steps)
    return total / (points[-1][0] - points[0][0])


def slope(curve: Curve) -> float:
    """Of the least-squares line: what a ratio from 0 to 100 % adds."""
    return statistics.linear_regression(list(curve), list(curve.values())).slope


def _columns(measure: Measure) -> dict[str, Callable[[Curve], float]]:
    worst = min if measure.more_is_better else max
    return {"area": area, "worst": lambda curve: worst(curve.values()), "slope": slope}


def mismatch_table(runs: Sequence[Run], measure: Measure) -> Table:
    """A row per data set, method and setting; area, worst case and slope.

    A seed counts if it has a value at every ratio of its row, so that each number is of
    a whole curve; its mean and spread are over seeds, its differences paired by seed.

    Raises:
      UserError: nothing was run at two ratios.
    """
    groups = Groups(runs)
    keys = [(block, v) for block in groups.blocks for v in groups.variants(block)]
    keys = [key for key in keys if len(_ratios(groups, *key, measure)) > 1]
    if not keys:
        raise UserError("no method was run at two mismatch ratios or more")
    settings = [groups.wording.both(groups.first(*key)) for key in keys]
    rows = []
    for (block, variant), setting in zip(keys, settings, strict=True):
        ratios = _ratios(groups, block, variant, measure)
        at = " ".join(ratio_title(ratio, measure) for ratio in ratios)
        names = [groups.title(block), groups.first(block, variant).method, at]
        rows.append(
            Row(
                (*names, setting) if any(settings) else tuple(names),
                _cells(groups, block, variant, ratios, measure),
                measure,
                # Curves over other ratios are no rivals.
                rival_of=f"{groups.full_title(block)} {at}",
            )
        )
    return Table(
        title="",
        names=("data", "method", "ratios", *(["settings"] if any(settings) else [])),
        columns=tuple(_columns(measure)),
        rows=tuple(rows),
        notes=(_note(measure),),
    )


def _note(measure: Measure) -> str:
    worst = "lowest" if measure.more_is_better else "highest"
    return (
        f"Of {measure.title} over the mismatch ratio, mean ± std over seeds. Area: "
        f"mean height of the curve; worst: its {worst} point; slope: of its "
        "least-squares line, for a ratio from 0 to 100 %."
    )


def _ratios(
    groups: Groups, block: Block, variant: Fields, measure: Measure
) -> list[float]:
    """Where the curve has points; the baseline may serve all of them."""
    known = [ratio for ratio in groups.ratios(block) if ratio is not None]
    return [ratio for ratio in known if groups.serving(block, variant, ratio, measure)]


def _cells(
    groups: Groups,
    block: Block,
    variant: Fields,
    ratios: Sequence[float],
    measure: Measure,
) -> tuple[Cell, ...]:
    failed = _failed(groups, block, variant, ratios, measure)
    ours, theirs = _curves(groups, block, variant, ratios, measure), {}
    reference = groups.baseline(block, variant)
    of_baseline = groups.first(block, variant).method == BASELINE
    if reference and not (
        of_baseline or failed or _failed(groups, block, reference, ratios, measure)
    ):
        theirs = _curves(groups, block, reference, ratios, measure)
    of_seeds = lambda number, curves: {seed: number(c) for seed, c in curves.items()}
    return tuple(
        Cell(
            summarize(list(of_seeds(number, ours).values()), len(failed)),
            difference=paired(of_seeds(number, ours), of_seeds(number, theirs)),
        )
        for number in _columns(measure).values()
    )


def _failed(
    groups: Groups,
    block: Block,
    variant: Fields,
    ratios: Sequence[float],
    measure: Measure,
) -> set[int]:
    """Seeds that diverged at any ratio."""
    runs = [groups.serving(block, variant, ratio, measure) for ratio in ratios]
    return {r.result.seed for of in runs for r in of if r.result.status == DIVERGED}


def _curves(
    groups: Groups,
    block: Block,
    variant: Fields,
    ratios: Sequence[float],
    measure: Measure,
) -> dict[int, Curve]:
    """Seed → its curve, of seeds that have every ratio."""
    found = {
        r: values(groups.serving(block, variant, r, measure), measure) for r in ratios
    }
    seeds = set.intersection(*(set(of_ratio) for of_ratio in found.values()))
    return {seed: {r: found[r][seed] for r in ratios} for seed in sorted(seeds)}
