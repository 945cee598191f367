"""Clusters that are forced to equal size, and the same with sizes that are not."""

from __future__ import annotations

from collections.abc import Sequence

from upsilon_jax.errors import UserError
from upsilon_jax.report.groups import Block, Groups, compared, summary
from upsilon_jax.report.layout import Cell, Row, Table
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.notes import ratio_title, what_is_shown
from upsilon_jax.report.runs import Fields, Run
from upsilon_jax.report.statistics import Interval

_EQUAL_SIZES = (False, 1.0)


def assignment_table(runs: Sequence[Run], measure: Measure) -> Table:
    """A row for every assignment; differences are to clusters of equal size.

    Raises:
      UserError: no run has clusters of other sizes.
    """
    groups = Groups(runs)
    keys = [(block, v) for block in groups.blocks for v in _in_order(groups, block)]
    if all(_loosened(variant) == _EQUAL_SIZES for _, variant in keys):
        raise UserError("no run has method.relaxation, or method.mass below 1")
    ratios = groups.ratios()
    rows = []
    for block, variant in keys:
        run, title = groups.first(block, variant), groups.full_title(block)
        cells = (
            Cell(
                summary(groups.cell(block, variant, ratio), measure),
                difference=_gain(groups, block, variant, ratio, measure),
            )
            for ratio in ratios
        )
        names = (title, run.method, groups.wording.variant(run))
        rows.append(Row(names, tuple(cells), measure, rival_of=title))
    return Table(
        title="",
        names=("data", "method", "settings"),
        columns=tuple(ratio_title(ratio, measure) for ratio in ratios),
        rows=tuple(rows),
        notes=(what_is_shown(rows),),
        reference="clusters of equal size",
    )


def _loosened(variant: Fields) -> tuple[bool, float] | None:
    """Whether sizes are drawn, and ρ; None of a method without clusters."""
    fields = {name.rpartition(".")[2]: value for name, value in variant}
    if "relaxation" not in fields:
        return None
    return fields["relaxation"] is not None, fields["mass"]


def _in_order(groups: Groups, block: Block) -> list[Fields]:
    """Variants with clusters, those of equal size first, the partial ones last."""
    found = {v: sizes for v in groups.variants(block) if (sizes := _loosened(v))}
    return sorted(found, key=lambda v: (found[v][0], -found[v][1]))


def _gain(
    groups: Groups,
    block: Block,
    variant: Fields,
    ratio: float | None,
    measure: Measure,
) -> Interval | None:
    """To the same method with equal sizes, paired by seed.

    Of several that with the most settings in common, such as the same K.
    """
    method = groups.first(block, variant).method
    equal = [
        other
        for other in groups.variants(block, method)
        if _loosened(other) == _EQUAL_SIZES
    ]
    if not equal or _loosened(variant) == _EQUAL_SIZES:
        return None
    nearest = max(equal, key=lambda other: len({*other} & {*variant}))
    ours, theirs = (groups.cell(block, v, ratio) for v in (variant, nearest))
    return compared(ours, theirs, measure)
