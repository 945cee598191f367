"""The runs of `benchmarks.own_data`: their file, and the table of them."""

from __future__ import annotations

import csv
import itertools
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """What a run came to; shares are of 1."""

    heap: str
    setting: str
    foreign: float
    seed: int
    steps: int
    pretrain_steps: int
    clusters: int
    gamma: float
    accuracy: float
    auroc: float
    most_foreign: float  # of the tenth of the heap with the lowest ID scores, foreign
    known_on_clusters: float  # of the heap's photos of known classes
    estimate: float
    highest_n: int
    last_n: int
    last_m: int
    kinds_seen: int  # foreign kinds that are the commonest of some cluster


def read_rows(path: pathlib.Path) -> list[Row]:
    """The runs there are."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        rows = [Row(**cells) for cells in csv.DictReader(file)]
    number = lambda value: float(value) if "." in value else int(value)
    return [Row(*row[:2], *(number(value) for value in row[2:])) for row in rows]


def add_row(path: pathlib.Path, row: Row) -> None:
    """Appends a run; the first one brings the header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(Row._fields)
        cells = (round(float(x), 4) if isinstance(x, float) else x for x in row)
        writer.writerow(cells)


COLUMNS: Mapping[str, Callable[[Row], float]] = {
    "accuracy %": lambda row: 100 * row.accuracy,
    "AUROC": lambda row: row.auroc,
    "foreign among the tenth most foreign %": lambda row: 100 * row.most_foreign,
    "known on clusters %": lambda row: 100 * row.known_on_clusters,
    "error of the estimate": lambda row: abs(row.estimate - row.foreign),
    "highest N": lambda row: row.highest_n,
    "last N": lambda row: row.last_n,
    "last M": lambda row: row.last_m,
    "kinds seen": lambda row: row.kinds_seen,
}


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line for each heap and setting, means over shares and seeds."""
    head = ("heap", "setting", "steps, E_pt", "K", "γ", "runs", *COLUMNS)
    lines = [head, ("---",) * len(head)]
    same = lambda row: (row.heap, row.setting)
    for (heap, setting), group in itertools.groupby(sorted(rows, key=same), same):
        group = list(group)
        first = group[0]
        means = (statistics.mean(map(of, group)) for of in COLUMNS.values())
        lines.append(
            (
                heap,
                setting or "as suggested",
                f"{first.steps}, {first.pretrain_steps}",
                first.clusters,
                first.gamma,
                len(group),
                *(f"{mean:.4g}" for mean in means),
            )
        )
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
