"""What a person can mend: a command says only these in one line, with an exit code.

Anything else that is raised is a fault of the program, and keeps its traceback.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable
from typing import Any


class ExitCode(enum.IntEnum):
    """How a command ended; docs/reliability.md lists them.

    One that a signal stopped ends with 128 + its number, as in a shell: 130 is Ctrl-C,
    143 is SIGTERM.
    """

    DONE = 0
    FAILED = 1  # a fault of the program; of a sweep, some runs have no result
    REFUSED = 2  # a UserError
    DIVERGED = 3  # the loss was not finite; the same whenever the command is repeated
    LOST = 4  # another process of the same run has ended or cannot be reached


class UserError(Exception):
    """Something that whoever started the program can mend; one line says what."""

    exit_code = ExitCode.REFUSED


class ConfigError(UserError):
    """A config that cannot be run."""


class DataError(UserError):
    """Data that are missing, damaged or not as they must be."""


class DataNotPrepared(DataError):
    """The data set is not on this disk, or not in a form that can be used."""

    def __init__(self, problem: str, config: str, data_dir: str | None = None):
        """Names the command that mends it.

        Args:
          problem: what is wrong.
          config: a file or name whose data are to be prepared.
          data_dir: where, if the config does not say so.
        """
        where = f" --config.data.data_dir={data_dir}" if data_dir else ""
        super().__init__(f"{problem}: run python -m upsilon_jax.data {config}{where}")
        self._problem, self._data_dir = problem, data_dir

    def of(self, config: str) -> DataNotPrepared:
        """The same for the config that was asked for."""
        return DataNotPrepared(self._problem, config, self._data_dir)


class WorkdirError(UserError):
    """A workdir that cannot be used."""


class WorkdirInUse(WorkdirError):
    """A workdir that another process is at work in."""


class PeerLost(UserError):
    """Another process of the same run is not there (any more)."""

    exit_code = ExitCode.LOST


# Characters of a value and of a library's message; of more the beginning will do.
_LONG, _LINE = 60, 200


def shown(value: Any) -> str:
    """A value, or the beginning of a long one."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of more than 4,300 digits
        return "(a number of thousands of digits)"
    return text if len(text) <= _LONG else f"{text[:40]}… ({len(text):,} characters)"


def shortened(line: str) -> str:
    """Without the middle of a line that repeats a long value."""
    return line if len(line) < 300 else f"{line[:150]}…{line[-100:]}"


def said(error: BaseException) -> str:
    """What an error says, in one line; its beginning if it quotes a damaged file."""
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= _LINE else f"{line[:_LINE]}…"


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: near ones, else some that exist."""
    names = list(names)
    # What is much longer than any name is near to none, and slow to compare.
    near = difflib.get_close_matches(name[:_LONG], names, n=3)
    if near:
        return f"did you mean {', '.join(near)}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there are: {shown}"
