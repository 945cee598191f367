"""What must be known to read a table of the paper: the lines below it."""

from __future__ import annotations

from collections.abc import Sequence

from upsilon_jax.config import WITHOUT_EFFECT, flatten, load_config
from upsilon_jax.report.groups import Block, Groups
from upsilon_jax.report.layout import Row
from upsilon_jax.report.overview import what_is_shown
from upsilon_jax.report.published import BENCHMARKS, benchmark_of
from upsilon_jax.report.wording import say_value, short_name


def notes_below(
    groups: Groups, rows: Sequence[Row], ratios: Sequence[float | None]
) -> tuple[str, ...]:
    """What is shown, what stands in for what, and where runs are not the paper's."""
    if not groups.runs:
        return ("No run here belongs to this table: the numbers are the paper's.",)
    notes = [what_is_shown(rows) + " Numbers under “paper” are as printed there."]
    for block in groups.blocks:
        for variant in groups.variants(block, "baseline"):
            cells = [groups.cell(block, variant, ratio) for ratio in ratios]
            if groups.serves_all_ratios(block, variant) and not all(cells):
                notes.append(
                    f"{groups.full_title(block)}: the baseline sees no unlabeled "
                    "image; where it was not run at a ratio, its runs at another stand."
                )
        notes += _unlike_paper(groups, block)
    return tuple(notes)


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
