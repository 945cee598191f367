"""What must be known to read a table: its headings and the lines below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from upsilon_jax.config import WITHOUT_EFFECT, flatten, load_config
from upsilon_jax.report.groups import BASELINE, Block, Groups
from upsilon_jax.report.layout import Row
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.published import BENCHMARKS, benchmark_of
from upsilon_jax.report.wording import say_value, short_name


def ratio_title(ratio: float | None, measure: Measure) -> str:
    """The heading of a column: 50%, or what is shown if nobody knows the ratio."""
    return measure.name if ratio is None else f"{100 * ratio:g}%"


def what_is_shown(rows: Iterable[Row]) -> str:
    """A line below a table."""
    rows = list(rows)
    summaries = [cell.summary for row in rows for cell in row.cells if cell.summary]
    counts = {summary.count + summary.diverged for summary in summaries}
    seeds = (
        f"{min(counts)}"
        if len(counts) == 1
        else "as given by n; ranked in a column are cells of the most"
    )
    titles = {row.measure.title for row in rows}
    title = f"{titles.pop()}, mean ± std" if len(titles) == 1 else "mean ± std"
    shown = title[0].upper() + title[1:]
    return f"{shown}; seeds per cell: {seeds}." if counts else f"{shown}."


def notes_below(
    groups: Groups,
    rows: Sequence[Row],
    ratios: Sequence[float | None],
    measure: Measure,
) -> tuple[str, ...]:
    """What is shown, what stands in for what, and where runs are not the paper's."""
    if not groups.runs:
        return ("No run here belongs to this table: the numbers are the paper's.",)
    shown = what_is_shown(rows) + " Numbers under “paper” are as printed there."
    unlike = (line for block in groups.blocks for line in _unlike_paper(groups, block))
    return (shown, *stand_ins(groups, ratios, measure), *unlike)


def stand_ins(
    groups: Groups, ratios: Sequence[float | None], measure: Measure
) -> list[str]:
    """Lines on baselines that are shown at a ratio at which they were not run."""
    found = []
    for block in groups.blocks:
        for variant in groups.variants(block, BASELINE):
            cells = [groups.cell(block, variant, ratio) for ratio in ratios]
            serves = groups.serves_all_ratios(block, variant, measure)
            if serves and not all(cells):
                found.append(
                    f"{groups.full_title(block)}: the baseline sees no unlabeled "
                    "image; where it was not run at a ratio, its runs at another stand."
                )
    return found


def _unlike_paper(groups: Groups, block: Block) -> list[str]:
    """A line that says where a setting is not that of the paper, if it is of one."""
    run = groups.first(block)
    key = benchmark_of(run)
    if key is None:
        return []
    usual = flatten(load_config(BENCHMARKS[key].config, run.method))
    left_out = {*WITHOUT_EFFECT, "data.augmentation"}
    unlike = [
        f"{short_name(field)} {say_value(value)} ({say_value(usual[field])})"
        for field, value in block[1]
        if field in usual and field not in left_out and usual[field] != value
    ]
    if not unlike:
        return []
    return [
        f"{groups.full_title(block)}: not the paper's setting, whose values are in "
        f"brackets: {', '.join(unlike)}."
    ]
