import pathlib

import pytest

from tests.workdir.test_schema import make_result
from upsilon_jax.errors import UserError
from upsilon_jax.report.foreign import foreign_table
from upsilon_jax.report.runs import as_run
from upsilon_jax.workdir.schema import Foreign


def result(mismatch, share, gamma=0.3, accuracy=0.9, seed=0, width=1, clusters=4):
    config = {
        "data": {"name": "digits", "mismatch": mismatch},
        "method": {
            "name": "upsilon",
            "ood_threshold": gamma,
            "num_clusters": clusters,
        },
        "model": {"width": width},
    }
    foreign = share and Foreign(share, share - 0.1, share + 0.1, 0.5)
    result = make_result(config=config, accuracy=accuracy, seed=seed, foreign=foreign)
    return as_run(pathlib.Path("result.json"), result)


def test_a_row_has_the_mean_the_range_and_how_many_are_inside():
    runs = [result(0.5, 0.55), result(0.5, 0.75, seed=1), result(0.0, 0.05, "auto")]
    lines = foreign_table([*runs, result(None, 0.5), result(0.5, None)]).splitlines()
    assert lines[2:4] == [
        "| digits | upsilon | auto | 0% | 5% (5% to 5%) | 0.050 | 1/1 | 90.00 |  |",
        "| digits | upsilon | 0.3 | 50% | 65% (55% to 75%) | 0.150 | 1/2 "
        "| 90.00 ± 0.00 |  |",
    ]
    assert "error 0.117, largest 0.250" in lines[-1] and "2 of 3 runs" in lines[-1]


def test_a_threshold_from_the_data_is_compared_with_the_given_one_by_seed():
    given = [result(0.5, 0.5, accuracy=a, seed=s) for s, a in enumerate((0.8, 0.9))]
    found = [
        result(0.5, 0.5, "auto", accuracy=a, seed=s)
        for s, a in enumerate((0.81, 0.91, 0.5))
    ]
    line = foreign_table([*given, *found]).splitlines()[3]
    assert line.endswith("| +1.00 [+1.00, +1.00] (2) |")


def rows(runs):
    """Those of a table, each as settings or method, γ, accuracy and difference."""
    lines = foreign_table(runs).split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [(row[-8], row[-7], row[-2], row[-1]) for row in cells]


def test_a_threshold_is_compared_at_otherwise_equal_settings():
    runs = [
        *(result(0.5, 0.5, "auto", accuracy=0.9, width=width) for width in (1, 2, 4)),
        result(0.5, 0.5, 0.3, accuracy=0.8, width=1),
        result(0.5, 0.5, 0.3, accuracy=0.7, width=2),
        result(0.5, 0.5, 0.3, accuracy=0.6, width=4, clusters=8),
    ]
    assert rows(runs) == [
        ("width 1, num_clusters 4", "0.3", "80.00", ""),
        ("width 1, num_clusters 4", "auto", "90.00", "+10.00 (1)"),
        ("width 2, num_clusters 4", "0.3", "70.00", ""),
        ("width 2, num_clusters 4", "auto", "90.00", "+20.00 (1)"),
        ("width 4, num_clusters 4", "auto", "90.00", ""),
        ("width 4, num_clusters 8", "0.3", "60.00", ""),
    ]


def test_of_several_given_thresholds_none_is_preferred():
    runs = [result(0.5, 0.5, gamma) for gamma in (0.2, 0.3, "auto")]
    assert rows(runs) == [
        ("upsilon", gamma, "90.00", "") for gamma in ("0.2", "0.3", "auto")
    ]


def test_without_truth_or_estimate_there_is_no_table():
    with pytest.raises(UserError, match="no run has both"):
        foreign_table([result(None, 0.5), result(0.5, None)])
