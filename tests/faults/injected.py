"""What became of the runs that faults were injected into."""

from typing import NamedTuple


class Injected(NamedTuple):
    """How many faults of a kind a test injects; `docs/reliability.md` has them all."""

    survived: int = 0  # it ended, now or later, as a run that nobody disturbed
    refused: int = 0  # in one line
