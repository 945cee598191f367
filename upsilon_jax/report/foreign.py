"""True against estimated share of foreign images, for runs whose truth is known."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable

from upsilon_jax.errors import UserError
from upsilon_jax.workdir.schema import Result


def foreign_table(results: Iterable[Result]) -> str:
    """Markdown: a row for each data set, method, γ and true share.

    The estimate is the mean over seeds with the least and the largest; "inside" counts
    the seeds whose interval holds the truth. The error of a seed is |estimate - truth|.

    Args:
      results: runs; those without truth or estimate are passed over.
    """
    cells = collections.defaultdict(list)
    for result in results:
        data, method = result.config["data"], result.config["method"]
        if result.foreign is None or data.get("mismatch") is None:
            continue
        gamma = method.get("upsilon", method).get("ood_threshold", "—")
        cells[data["name"], method["name"], str(gamma), data["mismatch"]].append(result)
    if not cells:
        raise UserError(
            "no run has both a true and an estimated share of foreign images"
        )
    lines = [
        "| data | method | γ | foreign | estimate | error | inside | accuracy |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [_line(key, cells[key]) for key in sorted(cells)]
    errors = [_error(run) for runs in cells.values() for run in runs]
    inside = sum(_is_inside(run) for runs in cells.values() for run in runs)
    return "\n".join(lines) + (
        f"\n\nMean absolute error {statistics.mean(errors):.3f}, largest "
        f"{max(errors):.3f}; inside the interval {inside} of {len(errors)} runs."
    )


def _line(key: tuple[str, str, str, float], runs: list[Result]) -> str:
    data, method, gamma, mismatch = key
    shares = [run.foreign.share for run in runs]
    error = statistics.mean(map(_error, runs))
    accuracy = statistics.mean(run.accuracy for run in runs)
    return (
        f"| {data} | {method} | {gamma} | {mismatch:.0%} | "
        f"{statistics.mean(shares):.0%} ({min(shares):.0%} to {max(shares):.0%}) | "
        f"{error:.3f} | {sum(map(_is_inside, runs))}/{len(runs)} | {accuracy:.2%} |"
    )


def _error(run: Result) -> float:
    return abs(run.foreign.share - run.config["data"]["mismatch"])


def _is_inside(run: Result) -> bool:
    return run.foreign.low <= run.config["data"]["mismatch"] <= run.foreign.high
