"""What a person can mend: a command says only these in one line, with exit code 2.

Anything else that is raised is a fault of the program, and keeps its traceback.
"""

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
    FAILED = 1  # a fault of the program; of a sweep, some runs crashed or were refused
    REFUSED = 2  # a UserError
    DIVERGED = 3  # the loss was not finite; the same whenever the command is repeated


class UserError(Exception):
    """Something that whoever started the program can mend; one line says what."""


class ConfigError(UserError):
    """A config that cannot be run."""


class DataError(UserError):
    """Data that are missing, damaged or not as they must be."""


class DataNotPrepared(DataError):
    """The data set is not on this disk, or not in a form that can be used."""


class WorkdirError(UserError):
    """A workdir that cannot be used."""


class WorkdirInUse(WorkdirError):
    """A workdir that another process is at work in."""


# Characters of a value and of a library's message; of more the beginning will do.
_LONG, _LINE = 60, 200


def shown(value: Any) -> str:
    """A value, or the beginning of a long one."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of more than 4,300 digits
        return "(a number of thousands of digits)"
    return text if len(text) <= _LONG else f"{text[:40]}… ({len(text):,} characters)"


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
