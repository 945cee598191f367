"""Starts the command of `command.py`: `python -m upsilon_jax`, or `upsilon-jax`."""

from __future__ import annotations

import pathlib
import sys
from typing import NoReturn

from upsilon_jax.runtime import interrupts


def start() -> NoReturn:
    """Runs it with the arguments of the process, whatever that was started as."""
    name = pathlib.Path(sys.argv[0]).name
    if name == "__main__.py":
        name = "python -m upsilon_jax"
    interrupts.answer(name)  # before the imports that take seconds
    from upsilon_jax import command, commandline

    commandline.run(command.COMMAND._replace(name=name), command.main)


if __name__ == "__main__":
    start()
