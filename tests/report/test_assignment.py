"""Clusters of equal size against others."""

import csv
import io

import pytest

from tests.report.made import result, runs
from upsilon_jax.errors import UserError
from upsilon_jax.report.assignment import assignment_table
from upsilon_jax.report.layout import as_csv, markdown
from upsilon_jax.report.measures import MEASURES

ACCURACY = MEASURES["accuracy"]
RELAXED = {"method.relaxation": 1.0, "method.solver": "newton"}


def swept(*heights, method="upsilon", **fields):
    """Results of a method, one for each seed."""
    return [
        result(method, 1.0, height, seed, fields=fields)
        for seed, height in enumerate(heights)
    ]


PARTIAL = swept(0.9, **RELAXED, **{"method.mass": 0.5})
MADE = [*PARTIAL, *swept(0.8, 0.9, **RELAXED), *swept(0.75, 0.87)]


def rows(made):
    text = as_csv(assignment_table(runs(*made), ACCURACY))
    return list(csv.DictReader(io.StringIO(text)))


def test_differences_are_to_equal_sizes_with_the_same_seed():
    equal, relaxed, partial = rows(MADE)
    assert equal["settings"] == "mass 1, relaxation none, solver sinkhorn"
    assert equal["difference"] == ""
    assert float(relaxed["difference"]) == pytest.approx(4) and relaxed["pairs"] == "2"
    assert float(partial["difference"]) == pytest.approx(15) and partial["pairs"] == "1"
    text = markdown(assignment_table(runs(*MADE), ACCURACY))
    assert "Difference to clusters of equal size, paired by seed" in text


def test_other_data_and_methods_are_compared_apart():
    others = [
        *swept(0.1, **{"data.ood_imbalance": 10.0}),
        *swept(0.2, method="fixmatch+sec"),
        *swept(0.3, method="baseline"),
    ]
    found = rows([*others, *MADE])
    assert not any(row["method"] == "baseline" for row in found)
    assert [row["difference"] for row in found].count("") == 3
    assert [float(row["difference"]) for row in found if row["difference"]] == (
        pytest.approx([4, 15])
    )


def test_a_composed_method_has_its_own_fields():
    composed = {"method.upsilon.relaxation": 0.5}
    made = [
        *swept(0.5, method="fixmatch+sec"),
        *swept(0.6, method="fixmatch+sec", **composed),
    ]
    assert float(rows(made)[1]["difference"]) == pytest.approx(10)


def test_equal_sizes_alone_are_refused():
    with pytest.raises(UserError, match=r"method\.relaxation"):
        assignment_table(runs(*swept(0.8)), ACCURACY)


def test_of_several_with_equal_sizes_that_with_the_same_k_is_the_reference():
    more = {"method.num_clusters": 10}
    made = [
        *swept(0.6, 0.6, 0.6, **more),
        *swept(0.8),
        *swept(0.65, **RELAXED, **more),
        *swept(0.81, **RELAXED),
    ]
    gains = {
        row["settings"].split(", ")[0]: float(row["difference"])
        for row in rows(made)
        if row["difference"]
    }
    expected = {"num_clusters 10": 5, "num_clusters 4": 1}
    assert gains == pytest.approx(expected)
