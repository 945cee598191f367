"""docs/reliability.md says what the tests do: their counts, and the exit codes.

That every test it names exists is checked for all pages (`tests/test_docs.py`).
"""

import collections
import importlib
import pathlib
import re

from upsilon_jax.errors import ExitCode

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reliability.md").read_text("utf-8")
FUZZING = (DOCS / "fuzzing.md").read_text("utf-8")
_CAMPAIGN, _FOUND = PAGE.split("## What was found, and is mended")
_ROW = re.compile(
    r"^\| ([a-z -]+) \| .* \| `tests/faults/(\w+)\.py: (\w+)` \|$", re.MULTILINE
)
INPUT = "input"  # its counts are those of another page


def columns():
    """Kind -> (module, test, [injected, survived, refused, found, mended])."""
    found = {}
    for match in _ROW.finditer(_CAMPAIGN):
        kind, module, test = match.groups()
        cells = [cell.strip() for cell in match[0].split("|")[3:8]]
        assert kind not in found
        found[kind] = module, test, [cell.replace(",", "") for cell in cells]
    return found


def test_the_counts_are_those_of_the_tests():
    """`INJECTED` of a file of tests counts what each of them injects."""
    rows = [row for kind, row in columns().items() if kind != INPUT]
    told = {(module, test): counts[:3] for module, test, counts in rows}
    done = {}
    for module in {module for module, _ in told}:
        injected = importlib.import_module(f"tests.faults.{module}").INJECTED
        done |= {(module, test): [sum(n), *n] for test, n in injected.items()}
    assert told == {key: list(map(str, counts)) for key, counts in done.items()}
    assert len(told) > 10


def test_what_was_found_is_listed_by_kind_with_the_test_that_holds_it():
    listed = re.findall(r"^\| ([^|]+) \| .* \| (.*) \|$", _FOUND, re.MULTILINE)
    found = collections.Counter(kind for kind, _ in listed)
    mended = collections.Counter(kind for kind, test in listed if "`tests/" in test)
    assert set(found) - {"kind", "—"} <= set(columns())
    for kind, (_, _, counts) in columns().items():
        if kind != INPUT:
            assert counts[3:] == [str(found[kind]), str(mended[kind])], kind


def test_the_campaigns_of_made_up_input_are_one_row():
    """`tests/faults/test_fuzz.py` holds their own page."""
    told = re.findall(r"\| ([\d,]+) \| (\d+) \| (\d+) \|$", FUZZING, re.MULTILINE)
    cases, found, mended = zip(*told, strict=True)
    cases = sum(int(count.replace(",", "")) for count in cases)
    sums = [cases, sum(map(int, found)), sum(map(int, mended))]
    _, _, counts = columns()[INPUT]
    assert [counts[0], *counts[3:]] == list(map(str, sums)) and cases >= 100_000
    assert "](fuzzing.md)" in _CAMPAIGN


def test_every_exit_code_is_listed():
    codes = re.findall(r"^\| (\d+) \| ", PAGE, re.MULTILINE)
    assert [int(code) for code in codes] == [*sorted(ExitCode), 130, 143]
