"""Methods alone against the same with RPL and SEC around them."""

import csv
import io

import pytest

from tests.report.made import result, runs
from upsilon_jax.errors import UserError
from upsilon_jax.report.figures import FIGURES
from upsilon_jax.report.layout import as_csv, markdown
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.plug_in import plug_in_table

ACCURACY = MEASURES["accuracy"]


def swept(method, *heights, mismatch=0.5, **more):
    """Results of a method, one for each seed."""
    return [result(method, mismatch, h, seed, **more) for seed, h in enumerate(heights)]


def cells(table):
    """method → its numbers, of a table with one column."""
    return {row["method"]: row for row in csv.DictReader(io.StringIO(as_csv(table)))}


MADE = [
    *swept("fixmatch+upsilon", 0.82, 0.93, 0.7),
    *swept("baseline", 0.5),
    *swept("fixmatch", 0.8, 0.9),
    *swept("fixmatch+sec", 0.7, 0.9),
    *swept("pl", 0.1),  # nothing was put around it
]


def test_differences_are_to_the_method_alone_with_the_same_seed():
    found = cells(plug_in_table(runs(*MADE), ACCURACY))
    assert list(found) == ["baseline", "fixmatch", "fixmatch+sec", "fixmatch+upsilon"]
    gains = {name: row["difference"] for name, row in found.items()}
    assert gains["baseline"] == gains["fixmatch"] == ""
    assert float(gains["fixmatch+sec"]) == pytest.approx(-5)
    assert float(gains["fixmatch+upsilon"]) == pytest.approx(2.5)
    assert found["fixmatch+upsilon"]["pairs"] == "2"
    text = markdown(plug_in_table(runs(*MADE), ACCURACY))
    assert "Difference to the method alone, paired by seed" in text


def test_a_part_without_its_method_alone_has_no_difference():
    table = plug_in_table(runs(*swept("vat+rpl", 0.8)), ACCURACY)
    assert list(cells(table)) == ["vat+rpl"] and not table.has_differences


def test_a_method_that_is_pre_trained_as_composed_ones_are_is_a_row_of_its_own():
    epochs = MADE[0].config["train"]["pretrain_epochs"]
    trained = swept("fixmatch", 0.81, 0.93, fields={"train.pretrain_epochs": epochs})
    other = swept("fixmatch", 0.1, fields={"train.pretrain_epochs": epochs + 1})
    made = runs(*trained, *MADE, *other)
    found = cells(plug_in_table(made, ACCURACY))
    assert float(found["fixmatch, pre-trained"]["difference"]) == pytest.approx(2)
    assert float(found["fixmatch+sec"]["difference"]) == pytest.approx(-5)
    (axis,) = FIGURES["plug_in"](made, ACCURACY).axes
    marks = {bars.get_label(): bars.lines[0] for bars in axis.containers}
    assert marks["pre-trained"].get_ydata() == pytest.approx([2])


def test_other_settings_are_compared_apart():
    wide = swept("fixmatch", 0.1, fields={"model.width": 4})
    table = plug_in_table(runs(*MADE, *wide), ACCURACY)
    assert float(cells(table)["fixmatch+sec"]["difference"]) == pytest.approx(-5)


def test_nothing_around_anything_is_refused():
    with pytest.raises(UserError, match="pl\\+upsilon"):
        plug_in_table(runs(*swept("pl", 0.8)), ACCURACY)


def test_the_figure_shows_gains_and_intervals():
    found = runs(*MADE, *swept("fixmatch+rpl", 0.6, mismatch=1.0))
    (left,) = FIGURES["plug_in"](found, ACCURACY).axes  # nothing to show at 100 %
    marks = {bars.get_label(): bars.lines[0] for bars in left.containers}
    assert marks["+sec"].get_ydata() == pytest.approx([-5])
    assert marks["+upsilon"].get_ydata() == pytest.approx([2.5])
    (bar,) = left.containers[-1].lines[2][0].get_segments()
    # Two differences, 2 and 3: Student's quantile is 12.7.
    assert bar[:, 1] == pytest.approx([2.5 - 12.706 / 2, 2.5 + 12.706 / 2], abs=1e-3)
    assert [text.get_text() for text in left.get_xticklabels()] == ["fixmatch"]
    assert left.get_ylabel() == "gain in test accuracy in points"


def test_the_figure_is_refused_where_no_method_was_run_alone():
    with pytest.raises(UserError, match="alone and with RPL"):
        FIGURES["plug_in"](runs(*swept("vat+rpl", 0.8)), ACCURACY)


def test_what_is_left_of_a_method_that_diverged_is_not_compared():
    lost = result("fixmatch", 0.5, None, 2, status="diverged")
    found = cells(plug_in_table(runs(*MADE, lost), ACCURACY))
    assert found["fixmatch"]["diverged"] == "1"
    assert found["fixmatch+upsilon"]["difference"] == ""
