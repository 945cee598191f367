"""What a measurement says: verdicts, known limits, the table and the JSON file."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.timing import Quartiles, Times, median, speedup

# A known limit may be missed by this much before the run fails: noise of the machine.
TOLERANCE = 0.15
# What decides the numbers.
PACKAGES = "jax jaxlib flax optax numpy pillow torch ott-jax POT".split()


class Bound(NamedTuple):
    """What a ratio should reach; None where nothing is asked."""

    limit: float | None = None
    aim: float | None = None
    better: str = "higher"  # or "lower"


class Result(NamedTuple):
    """One line of the table.

    `ratio` is peer / ours, "times as fast", where more is better, and otherwise what
    `case` says. Absolute seconds stand beside ratios only.
    """

    row: int
    case: str  # unique within the row
    peer: str
    ratio: Quartiles
    bound: Bound
    seconds: tuple[float | None, float | None] = (None, None)  # medians: ours, peer
    unit: str = "×"
    note: str = ""

    @property
    def name(self) -> str:
        """The key in `known_limits.json`."""
        return f"{self.row} {self.case}"


def compare(
    row: int,
    case: str,
    times: Times,
    peer: str,
    bound: Bound,
    *,
    description: str | None = None,
    note: str = "",
) -> Result:
    """How many times as fast as a peer "ours" is, from times of one alternation."""
    seconds = median(times, "ours"), median(times, peer)
    ratio = speedup(times, "ours", peer)
    return Result(row, case, description or peer, ratio, bound, seconds, note=note)


def reaches(value: float, target: float | None, better: str) -> bool:
    """Whether a value is as good as the target; a NaN never is."""
    if target is None:
        return False
    return value >= target if better == "higher" else value <= target


def verdict(result: Result) -> str:
    """One of "aim", "ok", "MISS", and "-" where nothing is asked."""
    value, (limit, aim, better) = result.ratio.median, result.bound
    if reaches(value, aim, better):
        return "aim"
    if limit is None:
        return "-"
    return "ok" if reaches(value, limit, better) else "MISS"


def fails(result: Result, known_limits: Mapping[str, float]) -> bool:
    """Whether the run must fail: a miss, unless known and no worse than it was."""
    if verdict(result) != "MISS":
        return False
    if result.name not in known_limits:
        return True
    better = result.bound.better
    slack = 1 - TOLERANCE if better == "higher" else 1 + TOLERANCE
    return not reaches(result.ratio.median, known_limits[result.name] * slack, better)


def read_known_limits(path: pathlib.Path, scale: str) -> dict[str, float]:
    """Best ratios of rows that miss their bound: {scale: {"ROW CASE": ratio}}."""
    return json.loads(path.read_text("utf-8")).get(scale, {})


def as_record(result: Result, title: str) -> dict[str, Any]:
    """A result as it stands in the JSON file."""
    ours, peer = result.seconds
    return {
        "row": result.row,
        "what": title,
        "case": result.case,
        "peer": result.peer,
        "ratio": result.ratio._asdict(),
        "unit": result.unit,
        "better": result.bound.better,
        "at_least": result.bound.limit,
        "aim": result.bound.aim,
        "verdict": verdict(result),
        "median_seconds": {"ours": ours, "peer": peer},
        "note": result.note,
    }


_SIGNS = {"higher": "≥", "lower": "≤"}
_COLUMNS = ("#", "what", "case", "peer", "ratio (quartiles)", "at least", "aim")
_COLUMNS += ("verdict", "ours", "peer takes")


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, a line a record, and the notes below."""
    lines = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_cells, records)]
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    notes = [f"- {r['row']} {r['case']}: {r['note']}" for r in records if r["note"]]
    return "\n".join([text, "", *notes]) if notes else text


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """The summary, and all of it."""
    return f"{summary(records)}\n\n{table(records)}"


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, a line for all cases of a row that are held to the same bound."""
    groups: dict[tuple, list[Mapping[str, Any]]] = {}
    for r in records:
        if r["at_least"] is not None:
            bound = r["row"], r["what"], r["unit"], r["better"], r["at_least"]
            groups.setdefault(bound, []).append(r)
    lines = [
        ("#", "what", "against", "cases", "ratio, worst to best", "asked", "missed"),
        ("---",) * 4 + ("---:",) * 3,
    ]
    for (row, what, unit, better, limit), group in groups.items():
        peers = dict.fromkeys(re.split("[,:]", r["peer"])[0] for r in group)
        ratios = [r["ratio"]["median"] for r in group]
        ratios.sort(reverse=better == "lower")
        ends = dict.fromkeys((_number(ratios[0]), _number(ratios[-1])))
        missed = sum(r["verdict"] == "MISS" for r in group)
        lines.append(
            (
                str(row),
                what,
                " / ".join(peers),
                str(len(group)),
                " to ".join(ends) + unit,
                f"{_SIGNS[better]} {_number(limit)}{unit}",
                str(missed) if missed else "",
            )
        )
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cells(record: Mapping[str, Any]) -> tuple[str, ...]:
    unit, sign = record["unit"], _SIGNS[record["better"]]
    target = lambda x: "" if x is None else f"{sign} {_number(x)}{unit}"
    low, middle, high = (_number(record["ratio"][k]) for k in Quartiles._fields)
    return (
        str(record["row"]),
        record["what"],
        record["case"],
        record["peer"],
        f"{middle}{unit} ({low} to {high})",
        target(record["at_least"]),
        target(record["aim"]),
        record["verdict"],
        *map(_time, record["median_seconds"].values()),
    )


def _number(value: float) -> str:
    """Three digits; four near 1, where overheads are compared."""
    if 1 <= abs(value) < 1.1:
        return f"{value:.4g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def describe_machine() -> dict[str, Any]:
    """Date, versions and CPU."""
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    models = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    return models[0].strip() if models else platform.processor()


def write(
    path: pathlib.Path,
    records: Sequence[Mapping[str, Any]],
    machine: Mapping[str, Any],
    scale: str,
) -> list[dict[str, Any]]:
    """Writes the JSON file; rows that were not measured this time stay as they are.

    They stay only if they come from the same machine with the same versions; each has
    the date of its own.

    Returns:
      All records that are now in the file.
    """
    header = {"scale": scale, **machine}
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    same = all(before.get(k) == v for k, v in header.items() if k != "date")
    measured = {record["row"] for record in records}
    kept = [r for r in before["rows"] if r["row"] not in measured] if same else []
    new = [{**record, "date": machine["date"]} for record in records]
    rows = sorted(kept + new, key=lambda record: record["row"])
    text = json.dumps({**header, "rows": rows}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", "utf-8")
    return rows
