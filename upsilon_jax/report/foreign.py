"""True against estimated share of foreign images, for runs whose truth is known."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable, Mapping

from upsilon_jax.errors import UserError
from upsilon_jax.report.groups import summary, values
from upsilon_jax.report.layout import say_change, say_summary
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.runs import Run
from upsilon_jax.report.statistics import paired
from upsilon_jax.workdir.schema import Foreign

_AUTO = "auto"
_ACCURACY = MEASURES["accuracy"]


def foreign_table(runs: Iterable[Run]) -> str:
    """Markdown: a row for each data set, method, γ and true share.

    The estimate is the mean over seeds with the least and the largest; "inside" counts
    the seeds whose interval holds the truth. The error of a seed is |estimate - truth|.
    Where γ is found from the data, the accuracy is compared with that of the same seeds
    with a γ that was given, in points.

    Args:
      runs: those without truth or estimate are passed over.
    """
    cells = collections.defaultdict(list)
    for run in runs:
        if run.result.foreign is not None and run.mismatch is not None:
            cells[run.key].append(run)
    if not cells:
        raise UserError(
            "no run has both a true and an estimated share of foreign images"
        )
    lines = [
        "| data | method | γ | foreign | estimate | error | inside | accuracy in % "
        "| to γ given |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    ordered = sorted(cells.values(), key=_place)
    given = {_place(runs)[:3]: runs for runs in ordered if _gamma(runs[0]) != _AUTO}
    lines += [_line(runs, given) for runs in ordered]
    errors = [_error(run) for runs in cells.values() for run in runs]
    inside = sum(_is_inside(run) for runs in cells.values() for run in runs)
    return "\n".join(lines) + (
        f"\n\nMean absolute error {statistics.mean(errors):.3f}, largest "
        f"{max(errors):.3f}; inside the interval {inside} of {len(errors)} runs."
    )


def _place(runs: list[Run]) -> tuple:
    """Data, method and true share, then γ."""
    return runs[0].data, runs[0].method, runs[0].mismatch, _gamma(runs[0])


def _gamma(run: Run) -> str:
    method = run.result.config["method"]
    return str(method.get("upsilon", method).get("ood_threshold", "—"))


def _line(runs: list[Run], given: Mapping[tuple, list[Run]]) -> str:
    shares = [_both(run)[0].share for run in runs]
    error = statistics.mean(map(_error, runs))
    data, method, mismatch, gamma = place = _place(runs)
    other = given.get(place[:3], []) if gamma == _AUTO else []
    change = paired(values(runs, _ACCURACY), values(other, _ACCURACY))
    return (
        f"| {data} | {method} | {gamma} | {mismatch:.0%} | "
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
