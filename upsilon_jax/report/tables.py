"""Many `result.json` files → one table of mean ± standard deviation."""

from __future__ import annotations

import collections
import pathlib
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from upsilon_jax.errors import UserError
from upsilon_jax.workdir.schema import DIVERGED, FINISHED, Result, read


def read_results(folder: pathlib.Path) -> list[Result]:
    """Every `result.json` below a folder, in the order of their paths."""
    paths = sorted(pathlib.Path(folder).rglob("result.json"))
    if not paths:
        raise UserError(f"{folder}: no result.json found")
    return [read(Result, path) for path in paths]


def accuracy_table(results: Iterable[Result], cost_of: str | None = None) -> str:
    """Markdown: a row per data set and method, a column per mismatch ratio.

    A cell is mean ± standard deviation (n - 1) in percent, with the number of seeds if
    they differ from cell to cell; "diverge" if a run did. Methods stand in the order of
    their first result.

    Args:
      results: at least one.
      cost_of: a method; adds a column with the time of a step relative to its.
    """
    results = list(results)
    cells = collections.defaultdict(list)
    for result in results:
        config = result.config
        row = (_data_name(config["data"]), config["method"]["name"])
        cells[row, config["data"]["mismatch"]].append(result)
    rows = list(dict.fromkeys(row for row, _ in cells))
    unknown_first = lambda ratio: -1 if ratio is None else ratio
    ratios = sorted({ratio for _, ratio in cells}, key=unknown_first)
    counts = {len(runs) for runs in cells.values()}
    titles = ("accuracy" if ratio is None else f"{ratio:.0%}" for ratio in ratios)
    header = ["data", "method", *titles]
    lines = [header, ["---", "---", *("---:" for _ in ratios)]]
    for row in rows:
        shown = [_cell(cells[row, ratio], len(counts) > 1) for ratio in ratios]
        lines.append([*row, *shown])
    if cost_of:
        costs = (_relative_cost(results, row, cost_of) for row in rows)
        column = [f"step / {cost_of}", "---:", *costs]
        lines = [[*line, cost] for line, cost in zip(lines, column, strict=True)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    seeds = f"{min(counts)}" if len(counts) == 1 else "as given by n"
    return f"{table}\n\nTest accuracy in %, mean ± std; seeds per cell: {seeds}."


def _relative_cost(results: list[Result], row: tuple[str, str], reference: str) -> str:
    """Median ratio of step times to the reference's run of the same data and seed."""
    seconds = {}
    for result in results:
        config = result.config
        name = _data_name(config["data"]), config["method"]["name"]
        where = config["data"]["mismatch"], result.seed
        if result.status == FINISHED:
            seconds[name, where] = _step_seconds(result)
    ratios = [
        value / seconds[(row[0], reference), where]
        for (name, where), value in seconds.items()
        if name == row and ((row[0], reference), where) in seconds
    ]
    return f"{statistics.median(ratios):.2f}" if ratios else "—"


def _step_seconds(result: Result) -> float:
    """Median over the second half of training, when all parts of a method run."""
    history = result.history
    times = [entry.train_seconds for entry in history[len(history) // 2 :]]
    return statistics.median(times) / history[0].step


def _data_name(data: Mapping[str, Any]) -> str:
    """One's own data are called by their place: they all have the same name."""
    place = data.get("labeled") or data.get("path")
    return f"{data['name']} {place}" if place else data["name"]


def _cell(runs: list[Result], with_count: bool) -> str:
    if not runs:
        return "—"
    if any(run.status == DIVERGED for run in runs):
        return "diverge"
    values = [100 * run.accuracy for run in runs]
    text = f"{statistics.mean(values):.2f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.2f}"
    return text + (f" (n = {len(values)})" if with_count else "")
