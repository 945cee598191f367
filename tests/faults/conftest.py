"""Fixtures of the parts that are put to the test here."""

from tests.native.conftest import cache, compiler  # noqa: F401


def pytest_terminal_summary(terminalreporter):
    """How many cases each campaign of test_fuzz.py has tried."""
    passed = terminalreporter.stats.get("passed", [])
    rows = [value for report in passed for key, value in report.user_properties]
    if rows:
        terminalreporter.section("cases")
        for name, count in rows:
            terminalreporter.write_line(f"{count:8,}  {name}")
        terminalreporter.write_line(f"{sum(count for _, count in rows):8,}  in all")
