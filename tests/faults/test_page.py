"""docs/reliability.md says what the tests do: their counts, and the exit codes.

That every test it names exists is checked for all pages (`tests/test_docs.py`).
"""

import importlib
import pathlib
import re

from upsilon_jax.errors import ExitCode

PAGE = (pathlib.Path(__file__).parents[2] / "docs/reliability.md").read_text("utf-8")
_COUNTED = re.compile(
    r"^\|.*\| ([\d,]+) \|.*\| `tests/faults/(\w+)\.py: (\w+)` \|$", re.MULTILINE
)


def test_the_counts_are_those_of_the_tests():
    """`INJECTED` of a file of tests counts what each of them injects."""
    told = {(module, name): count for count, module, name in _COUNTED.findall(PAGE)}
    done = {}
    for module in {module for module, _ in told}:
        injected = importlib.import_module(f"tests.faults.{module}").INJECTED
        done |= {(module, name): f"{count:,}" for name, count in injected.items()}
    assert told == done and len(told) > 10


def test_every_exit_code_is_listed():
    codes = re.findall(r"^\| (\d+) \| ", PAGE, re.MULTILINE)
    assert [int(code) for code in codes] == [*sorted(ExitCode), 130, 143]
