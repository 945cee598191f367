"""Methods alone, and the same with RPL and SEC around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upsilon_jax.errors import UserError
from upsilon_jax.report.groups import BASELINE, Block, Groups, compared, summary
from upsilon_jax.report.layout import Cell, Row, Table
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.notes import ratio_title, what_is_shown
from upsilon_jax.report.runs import Fields, Run
from upsilon_jax.report.statistics import Interval

PARTS = ("rpl", "sec", "upsilon")  # what a name has after its "+"


def plug_in_table(runs: Sequence[Run], measure: Measure) -> Table:
    """A row for every method alone and with each part; differences are to it alone.

    Raises:
      UserError: no composed method was run.
    """
    groups = Groups(runs)
    if not any(bases(groups, block) for block in groups.blocks):
        raise UserError("no method was run with RPL or SEC around it; try pl+upsilon")
    ratios = groups.ratios()
    rows = [
        row for block in groups.blocks for row in _rows(groups, block, ratios, measure)
    ]
    return Table(
        title="",
        names=("data", "method"),
        columns=tuple(ratio_title(ratio, measure) for ratio in ratios),
        rows=tuple(rows),
        notes=(what_is_shown(rows),),
        reference="the method alone",
    )


def bases(groups: Groups, block: Block) -> list[str]:
    """The methods that were run with a part around them, in the order of runs."""
    methods = [groups.first(block, variant).method for variant in groups.main(block)]
    return list(dict.fromkeys(m.split("+")[0] for m in methods if "+" in m))


def variant_of(groups: Groups, block: Block, method: str) -> Fields | None:
    """The variant of a method with the most runs; None if it was not run."""
    for variant in groups.main(block):
        if groups.first(block, variant).method == method:
            return variant
    return None


def gain(
    groups: Groups,
    block: Block,
    base: str,
    part: str,
    ratio: float | None,
    measure: Measure,
) -> Interval | None:
    """What a part adds to a method, paired by seed."""
    alone = variant_of(groups, block, base)
    composed = variant_of(groups, block, f"{base}+{part}")
    if alone is None or composed is None:
        return None
    ours, theirs = (groups.cell(block, v, ratio) for v in (composed, alone))
    return compared(ours, theirs, measure)


def _rows(
    groups: Groups, block: Block, ratios: Sequence[float | None], measure: Measure
) -> Iterator[Row]:
    title = groups.full_title(block)
    found = bases(groups, block)
    for base in [BASELINE, *found] if found else []:
        for part in ("", *PARTS):
            method = f"{base}+{part}" if part else base
            variant = variant_of(groups, block, method)
            if variant is None:
                continue
            cells = (
                Cell(
                    summary(groups.serving(block, variant, ratio, measure), measure),
                    difference=gain(groups, block, base, part, ratio, measure)
                    if part
                    else None,
                )
                for ratio in ratios
            )
            yield Row((title, method), tuple(cells), measure, rival_of=title)
