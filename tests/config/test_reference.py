"""The page of all fields: made by a command, complete, and up to date."""

import pathlib
import re

import pytest

from upsilon_jax.config import FIELDS, config_names, flatten, load_config
from upsilon_jax.config.__main__ import reference
from upsilon_jax.methods import METHODS

ROOT = pathlib.Path(__file__).parents[2]
_ROW = re.compile(r"^\| `([\w.]+)`(?: °)? \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def page():
    return reference()


def test_it_is_up_to_date(page):
    """If not: python -m upsilon_jax.config > docs/configuration.md."""
    assert (ROOT / "docs" / "configuration.md").read_text("utf-8") == page


def test_every_field_is_there_and_has_a_meaning(page):
    rows = {row[0]: row for row in _ROW.findall(page)}
    assert rows.keys() >= FIELDS.keys()
    for method in (*METHODS, "fixmatch+upsilon"):
        fields = flatten(load_config("digits", method)).keys() - {"method.name"}
        assert rows.keys() >= fields
    assert not [name for name, row in rows.items() if not row[3].strip()]
    assert rows["train.epochs"][1:3] == (
        "`400`",
        "a whole number ≥ 1, at most 2147483647",
    )


def test_every_method_and_benchmark_is_there(page):
    headings = {
        n for line in re.findall(r"^### (.*)$", page, re.M) for n in line.split(", ")
    }
    assert headings >= METHODS.keys()
    assert all(f"| `{name}` |" in page for name in config_names())


def test_what_a_method_pins_is_said(page):
    assert "- `pl`: `rebalance` `False`, `num_clusters` `0`" in page
