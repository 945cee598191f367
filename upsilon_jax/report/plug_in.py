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
ALONE = ""
# The method alone, but pre-trained as composed methods are: what comes with a "+", too.
PRETRAINED = "pre-trained"
_EPOCHS = "train.pretrain_epochs"


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


def parts_of(groups: Groups, block: Block, base: str) -> dict[str, Fields]:
    """Of a method, what was run: ALONE, PRETRAINED or one of PARTS, and the variant.

    Of several variants the one with the most runs counts, of as many that with the
    least pre-training.
    """
    names = {ALONE: base, **{part: f"{base}+{part}" for part in PARTS}}
    found = {part: _most_run(groups, block, name) for part, name in names.items()}
    epochs = {dict(of)[_EPOCHS] for part, of in found.items() if part and of}
    for other in groups.variants(block, base):
        differs = {name for name, _ in {*other} ^ {*(found[ALONE] or ())}}
        if differs == {_EPOCHS} and dict(other)[_EPOCHS] in epochs:
            found[PRETRAINED] = other
    order = (ALONE, PRETRAINED, *PARTS)
    return {part: variant for part in order if (variant := found.get(part))}


def _most_run(groups: Groups, block: Block, method: str) -> Fields | None:
    def standing(variant: Fields) -> tuple[int, int]:
        runs = (groups.cell(block, variant, ratio) for ratio in groups.ratios(block))
        return sum(map(len, runs)), -dict(variant)[_EPOCHS]

    return max(groups.variants(block, method), key=standing, default=None)


def gain(
    groups: Groups,
    block: Block,
    base: str,
    part: str,
    ratio: float | None,
    measure: Measure,
) -> Interval | None:
    """What a part adds to a method, paired by seed."""
    variants = parts_of(groups, block, base)
    if part == ALONE or not {ALONE, part} <= variants.keys():
        return None
    ours, theirs = (groups.cell(block, variants[p], ratio) for p in (part, ALONE))
    return compared(ours, theirs, measure)


def _rows(
    groups: Groups, block: Block, ratios: Sequence[float | None], measure: Measure
) -> Iterator[Row]:
    title = groups.full_title(block)
    found = bases(groups, block)
    for base in [BASELINE, *found] if found else []:
        for part, variant in parts_of(groups, block, base).items():
            cells = (
                Cell(
                    summary(groups.serving(block, variant, ratio, measure), measure),
                    difference=gain(groups, block, base, part, ratio, measure),
                )
                for ratio in ratios
            )
            name = f"{base}, {part}" if part == PRETRAINED else f"{base}+{part}"
            names = (title, name if part else base)
            yield Row(names, tuple(cells), measure, rival_of=title)
