import math
from types import SimpleNamespace

import pytest

from upsilon_jax.report.page import phrases
from upsilon_jax.report.page.charts import Line, histogram, line_chart
from upsilon_jax.report.page.outline import _foreign_card


@pytest.mark.parametrize(
    "share, text",
    [
        (0.934, "93.4 %"),
        (1.0, "100.0 %"),
        (0.9999, ">99.9 %"),
        (0.0, "0.0 %"),
        (1e-5, "<0.1 %"),
        (None, "—"),
        (math.nan, "—"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share, text):
    assert phrases.percent(share).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    "share, text",
    [
        (0.926, "about 93 of 100"),
        (1.0, "all of 100"),
        (0.999, "more than 99 of 100"),
        (0.001, "fewer than 1 of 100"),
    ],
)
def test_a_share_as_people_count(share, text):
    assert phrases.of_hundred(share) == text


def test_lists_durations_and_counts():
    assert phrases.listed(["cat"]) == "cat"
    assert phrases.listed(["cat", "dog", "cow"]) == "cat, dog and cow"
    assert phrases.listed([str(i) for i in range(30)], most=2) == "0, 1 and 28 more"
    assert phrases.duration(3725) == "1 h 2 min" and phrases.duration(61) == "1 min 1 s"
    assert phrases.count(1, "image") == "1 image" and phrases.count(1234) == "1,234"


def test_the_margin_of_error_is_half_of_wilsons_interval():
    stats = pytest.importorskip("scipy.stats")
    interval = stats.binomtest(330, 362).proportion_ci(method="wilson")
    expected = (interval.high - interval.low) / 2
    found = phrases.margin_of_error(330 / 362, 362)
    assert found == pytest.approx(expected, rel=1e-3)


def test_the_estimated_share_of_foreign_images_has_its_interval():
    foreign = SimpleNamespace(share=0.48, low=0.41, high=0.55)
    result = SimpleNamespace(foreign=foreign)
    card = _foreign_card(SimpleNamespace(result=result, truth_is_known=False))
    assert card.value.startswith("48")
    assert "between 41\u00a0% and 55\u00a0%" in card.meaning
    assert _foreign_card(SimpleNamespace(result=SimpleNamespace(foreign=None))) is None


def test_charts_stay_inside_their_frame_whatever_they_show():
    """One point, equal values, thousands of points, an empty line."""
    labels = dict(y_label="y", x_label="epoch", share=False)
    for points in ([(1, 0.0)], [(1, 5.0), (2, 5.0)], [(i, i % 7) for i in range(5000)]):
        chart = line_chart("t", [Line("a", 1, points), Line("b", 2, [])], **labels)
        drawn = chart.split('points="')[1].split('"')[0].split()
        assert 1 < len(drawn) <= 501
        for x, y in (map(float, point.split(",")) for point in drawn):
            assert 0 <= x <= 420 and 0 <= y <= 250
    chart = histogram("t", [("a", 1, [0, 3]), ("b", 4, [2, 0])], x_label="", y_label="")
    assert chart.count("<rect") == 2
