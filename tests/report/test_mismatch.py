"""Area, worst case and slope of curves over the mismatch ratio."""

import csv
import io

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from tests.report.made import result, runs
from upsilon_jax.errors import UserError
from upsilon_jax.report.layout import as_csv, markdown
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.mismatch import area, mismatch_table, slope

RATIOS = (0.0, 0.25, 0.5, 1.0)
ACCURACY = MEASURES["accuracy"]


def curve_of(method, heights, seed=0, **more):
    """Results of a method, one at each ratio."""
    pairs = zip(RATIOS, heights, strict=True)
    return [result(method, ratio, height, seed, **more) for ratio, height in pairs]


def numbers(table, method, column):
    found = csv.DictReader(io.StringIO(as_csv(table)))
    (row,) = [r for r in found if (r["method"], r["column"]) == (method, column)]
    return row


def test_area_and_slope_agree_with_scipy():
    heights = np.random.default_rng(0).uniform(50, 90, len(RATIOS))
    curve = dict(zip(RATIOS[1:], heights[1:], strict=True))
    integral = scipy.integrate.trapezoid(heights[1:], RATIOS[1:])
    assert area(curve) == pytest.approx(integral / 0.75, rel=1e-12)
    fitted = scipy.stats.linregress(RATIOS[1:], heights[1:])
    assert slope(curve) == pytest.approx(fitted.slope, rel=1e-10)


def test_numbers_are_of_the_curve_of_each_seed_and_then_averaged():
    # The worst ratio differs: the lowest mean would be 0.75, not 0.70.
    first, second = (0.9, 0.7, 0.8, 0.8), (0.9, 0.8, 0.7, 0.8)
    told = [*curve_of("pl", first), *curve_of("pl", second, seed=1)]
    table = mismatch_table(runs(*told), ACCURACY)
    assert float(numbers(table, "pl", "worst")["mean"]) == pytest.approx(70)
    expected = np.std(
        [area(dict(zip(RATIOS, c, strict=True))) for c in (first, second)]
    )
    found = float(numbers(table, "pl", "area")["std"])
    assert found == pytest.approx(100 * expected * np.sqrt(2))
    assert "| digits | pl | 0% 25% 50% 100% |" in markdown(table)


def test_the_worst_of_what_should_be_small_is_its_largest():
    low = MEASURES["ood_on_one"]
    counts = lambda most: [[9, 0], [0, 9], [most, 10 - most]]
    told = [
        result("pl", ratio, 0.9, confusion=counts(most))
        for ratio, most in ((0.0, 6), (1.0, 9))
    ]
    table = mismatch_table(runs(*told), low)
    assert float(numbers(table, "pl", "worst")["mean"]) == pytest.approx(90)
    assert "its highest point" in markdown(table)


def test_a_baseline_at_one_ratio_is_a_level_line_to_be_compared_with():
    told = [*curve_of("pl", (0.9, 0.8, 0.8, 0.6)), result("baseline", 0.5, 0.75)]
    table = mismatch_table(runs(*told), ACCURACY)
    assert float(numbers(table, "baseline", "area")["mean"]) == pytest.approx(75)
    assert float(numbers(table, "baseline", "slope")["mean"]) == pytest.approx(0)
    assert float(numbers(table, "pl", "worst")["difference"]) == pytest.approx(-15)


def test_half_curves_do_not_count_and_diverged_ones_are_said():
    whole = curve_of("pl", (0.9, 0.8, 0.8, 0.6))
    half = curve_of("pl", (0.1, 0.1, 0.1, 0.1), seed=1)[:2]
    failed = result("vat", 1.0, None, status="diverged")
    told = [*whole, *half, *curve_of("vat", (0.9, 0.8, 0.8, 0.6))[:3], failed]
    table = mismatch_table(runs(*told), ACCURACY)
    assert numbers(table, "pl", "area")["count"] == "1"
    assert "| diverge | diverge | diverge |" in markdown(table)


def test_curves_over_other_ratios_are_not_ranked_together():
    told = [*curve_of("pl", (0.9,) * 4), *curve_of("vat", (0.8,) * 4)[:2]]
    assert "**" not in markdown(mismatch_table(runs(*told), ACCURACY))
    told += curve_of("vat", (0.8,) * 4)[2:]
    assert "**90.00**" in markdown(mismatch_table(runs(*told), ACCURACY))


def test_one_ratio_is_no_curve():
    with pytest.raises(UserError, match="two mismatch ratios"):
        mismatch_table(runs(result("pl", 0.5, 0.9)), ACCURACY)
