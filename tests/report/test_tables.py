import json
import statistics

import pytest

from tests.workdir.test_schema import make_result
from upsilon_jax.errors import UserError
from upsilon_jax.report.tables import accuracy_table, read_results
from upsilon_jax.workdir.schema import Entry, plain


def result(method, mismatch, accuracy, status="finished", **fields):
    config = {
        "data": {"name": "digits", "mismatch": mismatch},
        "method": {"name": method},
    }
    return make_result(config=config, accuracy=accuracy, status=status, **fields)


def test_a_cell_is_the_mean_and_the_sample_standard_deviation():
    table = accuracy_table([result("pl", 0.5, a) for a in (0.90, 0.94, 0.95)])
    mean, std = statistics.mean([90, 94, 95]), statistics.stdev([90, 94, 95])
    assert f"| digits | pl | {mean:.2f} ± {std:.2f} |" in table
    assert "seeds per cell: 3" in table


def test_missing_cells_unequal_counts_and_divergence_are_said():
    table = accuracy_table(
        [
            result("upsilon", 0.0, 0.9),
            result("upsilon", 0.0, 0.8),
            result("upsilon", 1.0, 0.7),
            result("fixmatch", 1.0, None, "diverged"),
        ]
    )
    lines = table.splitlines()
    assert lines[0] == "| data | method | 0% | 100% |"
    assert lines[2] == "| digits | upsilon | 85.00 ± 7.07 (n = 2) | 70.00 (n = 1) |"
    assert lines[3] == "| digits | fixmatch | — | diverge |"


def test_own_data_have_no_ratio_and_are_told_apart_by_their_place():
    runs = [result("pl", None, accuracy) for accuracy in (0.5, 0.25)]
    for run, place in zip(runs, ("cats", "dogs"), strict=True):
        run.config["data"] |= {"name": "folder", "labeled": place}
    lines = accuracy_table([result("pl", 0.5, 0.75), *runs]).splitlines()
    assert lines[0] == "| data | method | accuracy | 50% |"
    assert lines[2:5] == [
        "| digits | pl | — | 75.00 |",
        "| folder cats | pl | 50.00 | — |",
        "| folder dogs | pl | 25.00 | — |",
    ]


def test_results_are_found_at_any_depth(tmp_path):
    for name, accuracy in (("b", 0.5), ("a/c", 0.25)):
        (tmp_path / name).mkdir(parents=True)
        text = json.dumps(plain(result("pl", 0.5, accuracy)))
        (tmp_path / name / "result.json").write_text(text)
    assert [found.accuracy for found in read_results(tmp_path)] == [0.25, 0.5]
    with pytest.raises(UserError, match=r"no result\.json"):
        read_results(tmp_path / "a" / "d")


def test_costs_are_ratios_of_paired_runs_in_the_second_half_of_training():
    def timed(method, seed, seconds):
        history = [Entry(e, 10 * (e + 1), {}, train_seconds=s) for e, s in seconds]
        return result(method, 0.5, 0.9, seed=seed, history=history)

    runs = [
        timed("pl", 0, enumerate([9.0, 1.0])),
        timed("vat", 0, enumerate([1.0, 3.0])),
        timed("pl", 1, enumerate([9.0, 2.0])),
        timed("vat", 1, enumerate([1.0, 6.0])),
        timed("orca", 7, enumerate([1.0, 1.0])),  # no reference with this seed
    ]
    lines = accuracy_table(runs, cost_of="pl").splitlines()
    assert lines[0].endswith("| step / pl |")
    assert lines[2].endswith("| 1.00 |") and lines[3].endswith("| 3.00 |")
    assert lines[4].endswith("| — |")
