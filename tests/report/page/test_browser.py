"""The pages in a real browser."""

import pytest

from tests.report.page.browser import CHROMIUM, browser
from tests.report.page.example_run import write_run
from upsilon_jax.report.page.document import write_report
from upsilon_jax.report.page.index import write_index

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

WIDTHS = (360, 768, 1280)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report and the index of the folder of its run."""
    runs = tmp_path_factory.mktemp("runs")
    reports = [write_report(write_run(runs / name)) for name in ("run2", "run10")]
    return reports[0], write_index(runs)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_loads_nothing_and_raises_no_error(tab, pages, width, dark):
    for path in pages:
        tab.open(path, width=width, dark=dark)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.complaints() == []
        assert tab.requests() == [path.resolve().as_uri()]
        empty = "[...document.images].filter((i) => !i.naturalWidth).length"
        assert tab.evaluate(empty) == 0
        # 0 is black: the page is dark if and only if it should be
        color = "getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"
        assert (int(tab.evaluate(color)) < 64) == dark
    tab.open(pages[0], width=width)
    assert tab.evaluate("document.images.length") > 50


def test_pictures_are_enlarged_and_walked_through_by_keyboard(tab, pages):
    tab.open(pages[0], width=1280)
    focus = "document.activeElement"
    tab.evaluate("document.querySelector('.sheet button').focus()")
    where = f"[...document.querySelectorAll('.sheet button')].indexOf({focus})"
    tab.press("ArrowRight")
    assert tab.evaluate(where) == 1
    tab.press("Enter")
    shown = "document.querySelector('dialog img').src"
    of = lambda i: f"document.querySelectorAll('.sheet img')[{i}].src"
    assert tab.evaluate("document.querySelector('dialog').open")
    assert tab.evaluate(f"{shown} === {of(1)}")
    tab.press("ArrowRight")
    assert tab.evaluate(f"{shown} === {of(2)}")
    tab.press("Escape")
    assert not tab.evaluate("document.querySelector('dialog').open")
    tab.press("Tab")  # out of the sheet
    assert tab.evaluate(f"{focus}.closest('.sheet') !== null")
    assert tab.evaluate(where) > 2
    assert tab.complaints() == []


def test_the_table_of_runs_is_sorted_by_keyboard(tab, pages):
    tab.open(pages[1], width=1280)
    first = "document.querySelector('tbody a').textContent"
    assert tab.evaluate(first) == "run10"  # as the folders are
    tab.evaluate("document.querySelector('thead button').focus()")
    tab.press("Enter")
    assert tab.evaluate(first) == "run2"  # 2 before 10
    sorted_by = "document.querySelector('thead th').ariaSort"
    assert tab.evaluate(sorted_by) == "ascending"
    tab.press("Enter")
    assert tab.evaluate(first) == "run10"
    assert tab.evaluate(sorted_by) == "descending"


def test_what_is_wrong_with_a_page_is_noticed(tab, tmp_path):
    path = tmp_path / "wrong.html"
    path.write_text(
        "<!DOCTYPE html><div style='width:2000px'>wide</div>"
        "<img src='http://127.0.0.1:9/x.png'><script>throw Error('wrong')</script>"
    )
    tab.open(path, width=360)
    assert tab.evaluate("document.documentElement.scrollWidth") > 360
    assert "Error: wrong" in str(tab.complaints())
    assert "http://127.0.0.1:9/x.png" in tab.requests()
    assert tab.evaluate("document.images[0].naturalWidth") == 0
