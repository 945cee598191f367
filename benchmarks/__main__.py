"""Measures every row against its peers:  python -m benchmarks [--quick] [--rows=1,3].

Prints a Markdown table and writes it to `results.md`, with all numbers in
`results.json` (`results_quick.*` for `--quick`). Exits with 1 if a row misses its "at
least", unless `known_limits.json` lists it and it is no worse than there.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks import results
from benchmarks.alone import call_alone
from benchmarks.peers import MissingPeer, num_cores, require
from benchmarks.scales import FULL, QUICK, Scale

HERE = pathlib.Path(__file__).parent


class Row(NamedTuple):
    """A row of the table."""

    title: str
    function: str  # "module.function": Scale -> list of results
    peers: tuple[str, ...] = ()  # modules it needs


ROWS = {
    1: Row("train step", "benchmarks.training.train_step_against_torch", ("torch",)),
    2: Row("train step", "benchmarks.training.train_step_against_plain_jit"),
    3: Row(
        "sinkhorn, 32 iterations",
        "benchmarks.clustering.sinkhorn_against_ott_and_pot",
        ("torch", "ott", "ot"),
    ),
    4: Row(
        "balance to a mass error of 1e-4",
        "benchmarks.clustering.balance_against_ott_and_pot",
        ("ott", "ot"),
    ),
    5: Row(
        "rebalance", "benchmarks.selection.rebalance_against_numpy_and_sort", ("torch",)
    ),
    6: Row(
        "epoch, Υ-Model / vanilla PL", "benchmarks.epoch.epoch_against_pseudo_labeling"
    ),
    7: Row("epoch, Υ-Model / vanilla PL", "benchmarks.epoch.epoch_over_settings"),
    8: Row("augmentation", "benchmarks.epoch.augmentation_share"),
    9: Row(
        "prediction of D_u", "benchmarks.training.predict_against_torch", ("torch",)
    ),
    10: Row("start-up", "benchmarks.startup.start_up"),
    11: Row("scaling", "benchmarks.scaling.scaling"),
    12: Row("several seeds", "benchmarks.seeds.seeds_in_one_run"),
}


def measure(
    rows: Mapping[int, Row], scale: Scale
) -> tuple[list[results.Result], list[int]]:
    """Results of all rows, and the rows that broke: their error is printed."""
    found, broken = [], []
    for number, row in rows.items():
        begin = time.perf_counter()
        try:
            found += call_alone(row.function, scale)
        except Exception:  # the other rows are still worth hours of measuring
            traceback.print_exc()
            broken.append(number)
        took = time.perf_counter() - begin
        print(f"row {number}, {row.title}: {took:.0f} s", file=sys.stderr, flush=True)
    return found, broken


def judge(
    found: Sequence[results.Result], broken: Sequence[int], known: Mapping[str, float]
) -> int:
    """Says what is wrong, if anything is; the exit code."""
    failed = [result.name for result in found if results.fails(result, known)]
    for name in failed:
        print(f"FAIL {name}: misses its bound" + _best(known.get(name)))
    for number in broken:
        print(f"FAIL {number}: broke, see its error above")
    for result in found:
        if result.name in known and results.verdict(result) in ("ok", "aim"):
            print(f"{result.name} is reached: take it out of known_limits.json")
    return 1 if failed or broken else 0


def _best(ratio: float | None) -> str:
    return "" if ratio is None else f", and by more than the known best of {ratio:g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="minutes, not an hour")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="e.g. 1,3,5")
    options = parser.parse_args(arguments)
    try:
        rows = {int(number): ROWS[int(number)] for number in options.rows.split(",")}
    except (KeyError, ValueError):
        parser.error(f"--rows={options.rows}: numbers of {min(ROWS)} to {max(ROWS)}")
    scale = QUICK if options.quick else FULL
    for peer in sorted({peer for row in rows.values() for peer in row.peers}):
        require(peer)
    if os.getloadavg()[0] > num_cores() / 2:
        print("other work is running: do not trust these ratios", file=sys.stderr)

    machine = results.describe_machine()
    found, broken = measure(rows, scale)
    records = [results.as_record(r, ROWS[r.row].title) for r in found]
    print(results.report(records))
    if records:
        path = HERE / ("results.json" if scale is FULL else "results_quick.json")
        rows = results.write(path, records, machine, scale.name)
        path.with_suffix(".md").write_text(results.report(rows) + "\n", "utf-8")
    known = results.read_known_limits(HERE / "known_limits.json", scale.name)
    return judge(found, broken, known)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MissingPeer as error:
        sys.exit(f"{error}")
