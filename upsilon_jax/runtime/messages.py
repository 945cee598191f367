"""How lines of this package look where absl writes the log: without a prefix."""

from __future__ import annotations

import logging

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
