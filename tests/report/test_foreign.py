import pathlib

import pytest

from tests.workdir.test_schema import make_result
from upsilon_jax.errors import UserError
from upsilon_jax.report.foreign import foreign_table
from upsilon_jax.report.runs import as_run
from upsilon_jax.workdir.schema import Foreign


def result(mismatch, share, gamma=0.3, accuracy=0.9, seed=0):
    config = {
        "data": {"name": "digits", "mismatch": mismatch},
        "method": {"name": "upsilon", "ood_threshold": gamma},
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


def test_without_truth_or_estimate_there_is_no_table():
    with pytest.raises(UserError, match="no run has both"):
        foreign_table([result(None, 0.5), result(0.5, None)])
