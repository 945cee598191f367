"""The benchmark's own logic: order of calls, verdicts, known limits, table, files."""

import itertools
import json

import pytest

from benchmarks import __main__ as command
from benchmarks import results, timing
from benchmarks.results import Bound, Result, fails, verdict
from benchmarks.scales import BOUNDS, FULL, QUICK, shape_label
from benchmarks.timing import Quartiles


def ticking(step=1.0):
    """A clock that advances by `step` at every look."""
    ticks = itertools.count(0, step)
    return lambda: next(ticks)


def result(ratio, limit=1.0, aim=2.0, better="higher", row=1, case="a"):
    bound = Bound(limit, aim, better)
    spread = Quartiles(0.9 * ratio, ratio, 1.1 * ratio)
    return Result(row, case, "peer", spread, bound, (0.5, 0.5 * ratio))


def records(*all_results):
    return [results.as_record(r, "what it does") for r in all_results]


# Timing.


def test_calls_take_turns():
    log = []
    calls = {name: lambda name=name: log.append(name) for name in ("ours", "a", "b")}
    times = timing.alternate(calls, rounds=3, pause=0.0, clock=ticking())
    assert log == ["ours", "a", "b"] * 4  # a warm-up and three rounds
    assert {name: len(t) for name, t in times.items()} == {"ours": 3, "a": 3, "b": 3}


def test_warm_up_is_neither_timed_nor_obligatory():
    log = []
    calls = {"ours": lambda: log.append(0)}
    options = {"rounds": 2, "pause": 0.0, "warm_up": False}
    times = timing.alternate(calls, clock=ticking(), **options)
    assert len(log) == len(times["ours"]) == 2


def test_short_calls_are_timed_right_after_an_untimed_one():
    log = []
    calls = {name: lambda name=name: log.append(name) for name in ("ours", "a")}
    short = ticking(timing.SHORT / 2)
    times = timing.alternate(calls, rounds=2, pause=0.0, warm_up=False, clock=short)
    # How long a call takes is known from the first round.
    assert log == ["ours", "a", "ours", "ours", "a", "a"]
    assert all(len(t) == 2 for t in times.values())


def test_untimed_calls_fill_the_time_a_core_needs_to_wake_up():
    log = []
    calls = {"ours": lambda: log.append(0)}
    quick = ticking(timing.AWAKE / 8)
    timing.alternate(calls, rounds=2, pause=0.0, warm_up=False, clock=quick)
    assert len(log) == 1 + 8 + 1


def test_quick_calls_get_more_rounds_up_to_a_limit():
    calls = {"ours": lambda: None}
    run = lambda seconds: timing.alternate(
        calls, rounds=1, seconds=seconds, clock=ticking(), pause=0.0
    )["ours"]
    assert len(run(0.0)) == 1
    # Every round looks at the clock three times, the first look is at 0.
    assert len(run(10.0)) == 4
    assert len(run(1e9)) == timing.MAX_ROUNDS
    assert set(run(10.0)) == {1.0}


def test_speedup_is_of_pairs():
    times = {"ours": [1.0, 2.0, 4.0], "peer": [3.0, 4.0, 4.0]}  # ratios 3, 2, 1
    assert timing.speedup(times, "ours", "peer") == Quartiles(1.5, 2.0, 2.5)
    assert timing.fastest(times | {"slow": [9.0] * 3}, ("slow", "peer")) == "peer"


def test_hopeless_peers_are_not_timed_again(monkeypatch):
    seconds = {"good": [1.0], "close": [1.9], "slow": [2.1]}
    monkeypatch.setattr(timing, "alternate", lambda calls, **_: seconds)
    assert list(timing.contenders(dict.fromkeys(seconds))) == ["good", "close"]


# Verdicts.


@pytest.mark.parametrize(
    "ratio, better, expected",
    [
        (0.99, "higher", "MISS"),
        (1.0, "higher", "ok"),
        (2.0, "higher", "aim"),
        (2.01, "lower", "MISS"),
        (2.0, "lower", "ok"),
        (1.0, "lower", "aim"),
        (float("nan"), "higher", "MISS"),
        (float("nan"), "lower", "MISS"),
    ],
)
def test_verdict(ratio, better, expected):
    limit, aim = (1.0, 2.0) if better == "higher" else (2.0, 1.0)
    assert verdict(result(ratio, limit, aim, better)) == expected


def test_verdict_where_nothing_is_asked():
    assert verdict(result(0.1, None, None)) == "-"
    assert verdict(result(0.1, None, 0.5)) == "-"
    assert verdict(result(0.6, None, 0.5)) == "aim"


def test_a_miss_fails_unless_known():
    assert fails(result(0.9), {})
    assert not fails(result(1.0), {})
    assert not fails(result(0.9), {"1 a": 0.9})
    assert fails(result(0.9), {"1 other": 0.9})


def test_a_known_limit_may_get_15_percent_worse():
    higher, lower = {"1 a": 0.8}, {"1 a": 4.0}
    assert not fails(result(0.69), higher) and fails(result(0.67), higher)
    at_most = lambda ratio: result(ratio, 2.0, 1.0, "lower")
    assert not fails(at_most(4.5), lower) and fails(at_most(4.7), lower)
    assert fails(result(float("nan")), higher)


def test_judge_says_what_failed(capsys):
    missed, known = result(0.5), result(0.5, case="b")
    assert command.judge([result(1.0)], [], {}) == 0
    assert command.judge([known], [], {"1 b": 0.5}) == 0
    assert command.judge([], [7], {}) == 1
    assert command.judge([missed, known], [], {"1 b": 0.5}) == 1
    assert "FAIL 1 a" in capsys.readouterr().out
    assert command.judge([result(1.5)], [], {"1 a": 0.5}) == 0
    assert "1 a is reached" in capsys.readouterr().out


# The table and the file.


def test_table():
    low = result(1.0123, 1.05, 1.02, "lower")._replace(note="a remark", unit=" s")
    lines = results.table(records(result(3.14159), low)).splitlines()
    assert lines[2] == (
        "| 1 | what it does | a | peer | 3.14× (2.83 to 3.46) | ≥ 1× | ≥ 2× | aim "
        "| 500 ms | 1.57 s |"
    )
    assert "| 1.012 s (0.911 to 1.11) | ≤ 1.05 s | ≤ 1.02 s | aim |" in lines[3]
    assert lines[4:] == ["", "- 1 a: a remark"]
    assert len({line.count("|") for line in lines[:4]}) == 1


def test_summary_has_a_line_for_each_bound_of_a_row():
    rows = records(
        result(3.0)._replace(peer="torch, eager"),
        result(0.5, case="b")._replace(peer="torch"),
        result(0.4, limit=None, aim=None, case="c"),  # nothing asked: left out
        result(1.04, 1.05, None, "lower", row=2),
    )
    lines = results.summary(rows).splitlines()
    assert lines[2:] == [
        "| 1 | what it does | torch | 2 | 0.5 to 3× | ≥ 1× | 1 |",
        "| 2 | what it does | peer | 1 | 1.04× | ≤ 1.05× |  |",
    ]
    assert len({line.count("|") for line in lines}) == 1


def test_the_readme_shows_the_summary_of_the_last_full_run():
    stored = json.loads((command.HERE / "results.json").read_text("utf-8"))
    readme = (command.HERE.parent / "README.md").read_text("utf-8")
    assert stored["scale"] == "full"
    assert {r["row"] for r in stored["rows"]} == command.ROWS.keys()
    assert results.summary(stored["rows"]) in readme


def test_what_the_last_full_run_missed_is_listed():
    stored = json.loads((command.HERE / "results.json").read_text("utf-8"))
    missed = {
        f"{r['row']} {r['case']}" for r in stored["rows"] if r["verdict"] == "MISS"
    }
    known = results.read_known_limits(command.HERE / "known_limits.json", "full")
    assert missed == known.keys()


def test_file_keeps_rows_of_the_same_machine(tmp_path):
    path = tmp_path / "results.json"
    machine = {"date": "2030-01-01", "cpu": "x", "versions": {"jax": "1"}}
    one, two = records(result(1.0, row=1)), records(result(2.0, row=2))
    results.write(path, one, machine, "full")
    rows = results.write(path, two, machine | {"date": "2030-01-02"}, "full")
    assert [(r["row"], r["date"][-1]) for r in rows] == [(1, "1"), (2, "2")]
    rows = results.write(path, one, machine | {"date": "2030-01-03"}, "full")
    assert [(r["row"], r["date"][-1]) for r in rows] == [(1, "3"), (2, "2")]
    stored = json.loads(path.read_text())
    assert stored["rows"] == rows and stored["cpu"] == "x"
    other = machine | {"versions": {"jax": "2"}}
    assert [r["row"] for r in results.write(path, one, other, "full")] == [1]


def test_machine_is_described():
    machine = results.describe_machine()
    assert machine["versions"]["jax"] and machine["cpu"] and machine["cores"] >= 1


# The command.


ROW_FUNCTIONS = """
from benchmarks.results import Bound, Result
from benchmarks.timing import Quartiles

def line(row, ratio):
    spread = Quartiles(0.9 * ratio, ratio, 1.1 * ratio)
    return [Result(row, "a", "peer", spread, Bound(1.0))]

def good(scale):
    return line(1, 3.0)

def bad(scale):
    return line(2, 0.5)

def killed(scale):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_command_measures_prints_and_fails(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(command, "HERE", tmp_path)
    (tmp_path / "known_limits.json").write_text('{"quick": {"2 a": 0.5}}')
    (tmp_path / "row_functions.py").write_text(ROW_FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)  # new processes have it too
    names = enumerate(("good", "bad", "killed", "missing"), 1)
    rows = {n: command.Row("title", f"row_functions.{name}") for n, name in names}
    monkeypatch.setattr(command, "ROWS", rows)
    assert command.main(["--quick", "--rows=1,2"]) == 0  # row 2 is a known limit
    table = (tmp_path / "results_quick.md").read_text()
    assert "| 3× (2.7 to 3.3) |" in table and "| MISS |" in table
    assert table in capfd.readouterr().out
    assert command.main(["--rows=1,2"]) == 1  # but not in the full run
    assert command.main(["--quick", "--rows=3,4,1"]) == 1  # the last one is measured
    out, err = capfd.readouterr()
    assert "FAIL 3" in out and "FAIL 4" in out and "| 3× (2.7 to 3.3) |" in out
    assert "BrokenProcessPool" in err and "no attribute 'missing'" in err


def test_command_refuses_unknown_rows(capsys):
    for rows in ("99", "x", ""):
        with pytest.raises(SystemExit):
            command.main([f"--rows={rows}"])
    assert "--rows=99" in capsys.readouterr().err


def test_every_bound_is_met_by_its_own_aim():
    for scale in (FULL, QUICK):
        assert set(scale.bounds) == set(BOUNDS)
        for limit, aim, better in scale.bounds.values():
            if limit is not None and aim is not None:
                assert results.reaches(aim, limit, better)


def test_shapes_are_written_short():
    assert shape_label(40_000, 20) == "[40k, 20]"
    assert shape_label(1_000_000, 1000) == "[1M, 1000]"
    assert shape_label(200, 4) == "[200, 4]"
