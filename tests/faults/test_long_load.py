"""A process that refreshes for days must not grow: `python -m benchmarks.long_load`."""

import pytest

from benchmarks import long_load

REFRESHES = 300  # of each kind; the command takes 1,000
MOST_MIB = 16


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
def test_many_refreshes_leave_nothing_behind(streamed):
    found = long_load.load(REFRESHES, streamed=streamed)
    assert found.compilations == 0
    assert found.after.resident_mib - found.before.resident_mib < MOST_MIB
    assert found.after.open_files <= found.before.open_files
    assert found.after.threads <= found.before.threads
    assert len(found.kept) > 3 and len(found.explored) > 10  # N and M did change
