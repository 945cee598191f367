"""Fixtures of the parts that are put to the test here."""

import pytest

from tests.data.photo_folder import save_photos
from tests.faults import forked
from tests.faults.kinds import KINDS, left
from tests.native.conftest import cache  # noqa: F401


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Folders of a few photos, for the kinds of runs that read them."""
    return save_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def whole(tmp_path_factory, photos):
    """Kind and more -> (arguments, what a run of them leaves that nobody disturbs)."""
    made = {}

    def find(kind, *more):
        if (kind, more) not in made:
            workdir = tmp_path_factory.mktemp("whole") / "run"
            args = [argument.format(photos=photos) for argument in KINDS[kind]]
            ended = forked.run(*args, *more, workdir=workdir)
            assert ended.code == 0, ended.said
            made[kind, more] = (*args, *more), left(workdir)
        return made[kind, more]

    return find


def pytest_terminal_summary(terminalreporter):
    """How many cases each campaign of test_fuzz.py has tried."""
    passed = terminalreporter.stats.get("passed", [])
    rows = [value for report in passed for key, value in report.user_properties]
    if rows:
        terminalreporter.section("cases")
        for name, count in rows:
            terminalreporter.write_line(f"{count:8,}  {name}")
        terminalreporter.write_line(f"{sum(count for _, count in rows):8,}  in all")
