"""The table of all runs there are, whatever they are of."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from upsilon_jax.report.groups import Block, Groups, difference, summary
from upsilon_jax.report.layout import MISSING, Cell, Row, Table
from upsilon_jax.report.measures import MEASURES, Measure, step_seconds
from upsilon_jax.report.notes import ratio_title, stand_ins, what_is_shown
from upsilon_jax.report.published import data_title
from upsilon_jax.report.runs import Fields, Run
from upsilon_jax.workdir.schema import FINISHED


def overview(
    runs: Sequence[Run],
    measure: Measure = MEASURES["accuracy"],
    cost_of: str | None = None,
) -> Table:
    """A row per data set, method and setting; a column per mismatch ratio.

    Args:
      runs: at least one.
      measure: what is shown.
      cost_of: a method; adds a column with the time of a step relative to its.
    """
    groups = Groups(runs)
    ratios = groups.ratios()
    keys = [(block, v) for block in groups.blocks for v in groups.variants(block)]
    settings = [groups.wording.unusual(groups.first(*key)) for key in keys]
    rows = []
    for (block, variant), setting in zip(keys, settings, strict=True):
        names = (groups.title(block), groups.first(block, variant).method)
        cells = (
            Cell(
                summary(groups.serving(block, variant, ratio, measure), measure),
                difference=difference(groups, block, variant, ratio, measure),
            )
            for ratio in ratios
        )
        rows.append(
            Row(
                (*names, setting) if any(settings) else names,
                tuple(cells),
                measure,
                rival_of=groups.full_title(block),
                extra=_relative_cost(groups, block, variant, cost_of),
            )
        )
    return Table(
        title="",
        names=("data", "method", *(["settings"] if any(settings) else [])),
        columns=tuple(ratio_title(ratio, measure) for ratio in ratios),
        rows=tuple(rows),
        notes=(
            what_is_shown(rows),
            *stand_ins(groups, ratios, measure),
            *_usual_settings(groups),
        ),
        extra=f"step / {cost_of}" if cost_of else "",
    )


def _usual_settings(groups: Groups) -> list[str]:
    """Lines on what rows leave out of their settings."""
    found = {
        (data_title(run), run.method): groups.wording.usual(run) for run in groups.runs
    }
    return [
        f"{data}, {method}: where nothing else is said, {usual}."
        for (data, method), usual in found.items()
        if usual
    ]


def _relative_cost(
    groups: Groups, block: Block, variant: Fields, reference: str | None
) -> str:
    """Median ratio of step times to the reference's run of the same data and seed."""
    ratios = []
    for other in groups.variants(block, reference) if reference else []:
        for mismatch in groups.ratios(block):
            theirs = _step_times(groups.cell(block, other, mismatch))
            ours = _step_times(groups.cell(block, variant, mismatch))
            ratios += [ours[seed] / theirs[seed] for seed in ours if seed in theirs]
    return f"{statistics.median(ratios):.2f}" if ratios else MISSING


def _step_times(runs: Iterable[Run]) -> dict[int, float]:
    times = {
        run.result.seed: step_seconds(run.result)
        for run in runs
        if run.result.status == FINISHED
    }
    return {seed: seconds for seed, seconds in times.items() if seconds}
