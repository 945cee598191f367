"""True against estimated share of foreign images, for runs whose truth is known."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from upsilon_jax.errors import UserError
from upsilon_jax.report.groups import compared, summary
from upsilon_jax.report.layout import say_change, say_summary
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.published import data_title
from upsilon_jax.report.runs import Run
from upsilon_jax.report.wording import Wording
from upsilon_jax.workdir.schema import Foreign

_AUTO = "auto"
_ACCURACY = MEASURES["accuracy"]


class _Row(NamedTuple):
    """Repetitions of one run, after what they are sorted by."""

    data: str
    method: str
    settings: str  # in what they differ from other rows, γ apart
    mismatch: float
    gamma: str
    runs: list[Run]


def foreign_table(runs: Iterable[Run]) -> str:
    """Markdown: a row for each data set, method, setting, γ and true share.

    The estimate is the mean over seeds with the least and the largest; "inside" counts
    the seeds whose interval holds the truth. The error of a seed is |estimate - truth|.
    Where γ is found from the data, the accuracy is compared with that of the same seeds
    with the γ that was given, in points; not where there are several such γ.

    Args:
      runs: those without truth or estimate are passed over.
    """
    known = [
        run
        for run in runs
        if run.result.foreign is not None and run.mismatch is not None
    ]
    if not known:
        raise UserError(
            "no run has both a true and an estimated share of foreign images"
        )
    rows = _rows(known)
    given = collections.defaultdict(list)
    for row in rows:
        if row.gamma != _AUTO:
            given[_without_gamma(row.runs[0]).key].append(row.runs)
    told = any(row.settings for row in rows)
    errors = [_error(run) for run in known]
    inside = sum(map(_is_inside, known))
    return "\n".join([*_head(told), *(_line(row, given, told) for row in rows)]) + (
        f"\n\nMean absolute error {statistics.mean(errors):.3f}, largest "
        f"{max(errors):.3f}; inside the interval {inside} of {len(errors)} runs."
    )


def _rows(known: Sequence[Run]) -> list[_Row]:
    """In order."""
    cells = collections.defaultdict(list)
    for run in known:
        cells[run.key].append(run)
    wording = Wording([_without_gamma(run) for run in known])
    rows = []
    for runs in cells.values():
        first = _without_gamma(runs[0])
        names = data_title(first), first.method, wording.both(first)
        rows.append(_Row(*names, _both(first)[1], _gamma(first), runs))
    return sorted(rows, key=lambda row: row[:-1])


def _without_gamma(run: Run) -> Run:
    """As if nobody had said what γ is."""
    rest = (pair for pair in run.variant if not pair[0].endswith(".ood_threshold"))
    return run._replace(variant=tuple(rest))


def _gamma(run: Run) -> str:
    method = run.result.config["method"]
    return str(method.get("upsilon", method).get("ood_threshold", "—"))


def _head(told: bool) -> list[str]:
    settings = " settings |" if told else ""
    return [
        f"| data | method |{settings} γ | foreign | estimate | error | inside "
        "| accuracy in % | to γ given |",
        f"|---|---|{'---|' if told else ''}---:|---:|---:|---:|---:|---:|---:|",
    ]


def _line(row: _Row, given: Mapping[tuple, list[list[Run]]], told: bool) -> str:
    runs = row.runs
    shares = [_both(run)[0].share for run in runs]
    error = statistics.mean(map(_error, runs))
    others = given.get(_without_gamma(runs[0]).key, [])
    other = others[0] if row.gamma == _AUTO and len(others) == 1 else []
    change = compared(runs, other, _ACCURACY)
    settings = f" {row.settings} |" if told else ""
    return (
        f"| {row.data} | {row.method} |{settings} {row.gamma} | {row.mismatch:.0%} | "
        f"{statistics.mean(shares):.0%} ({min(shares):.0%} to {max(shares):.0%}) | "
        f"{error:.3f} | {sum(map(_is_inside, runs))}/{len(runs)} | "
        f"{say_summary(summary(runs, _ACCURACY), _ACCURACY)} | "
        f"{say_change(change, _ACCURACY) if change else ''} |"
    )


def _both(run: Run) -> tuple[Foreign, float]:
    """The estimate and the truth; other runs were passed over."""
    assert run.result.foreign is not None and run.mismatch is not None
    return run.result.foreign, run.mismatch


def _error(run: Run) -> float:
    estimate, truth = _both(run)
    return abs(estimate.share - truth)


def _is_inside(run: Run) -> bool:
    estimate, truth = _both(run)
    return estimate.low <= truth <= estimate.high
