"""What a person is told of progress: whether, and how lines of ours look."""

from __future__ import annotations

import logging
import sys
import warnings

from absl import logging as absl_logging

_PACKAGE = __name__.partition(".")[0]


class _Plain(absl_logging.PythonFormatter):
    """A line of ours is for the user; time and place are for those of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] == _PACKAGE:
            return record.getMessage()
        return super().format(record)


def show_plainly() -> None:
    """Makes absl write lines of this package as they are."""
    absl_logging.get_absl_handler().setFormatter(_Plain())


def hush() -> None:
    """Leaves errors, and what a command prints at its end."""
    logging.getLogger(_PACKAGE).setLevel(logging.ERROR)


def are_shown() -> bool:
    """Whether somebody wants to hear of progress; the logger of the package knows."""
    return logging.getLogger(_PACKAGE).isEnabledFor(logging.WARNING)


def drop_lost_answers() -> None:
    """Drops what is said of writes that failed after the save they belong to.

    On a full disk the first one that fails ends the event loop of a save, which is told
    in a line; tensorstore then shows each other one as "Event loop is closed". Of those
    that had not begun Python warns, perhaps at its very end, that they were "never
    awaited".
    """
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    before = sys.unraisablehook
    if getattr(before, "drops_lost_answers", False):
        return

    def show(unraisable) -> None:
        if "Event loop is closed" not in str(unraisable.exc_value):
            before(unraisable)

    show.drops_lost_answers = True  # type: ignore[attr-defined]
    sys.unraisablehook = show
