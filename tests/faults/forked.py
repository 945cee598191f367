"""The command in processes that need not import it, and stop where a test wants it.

Each is forked from a server that has imported everything and computed nothing, so that
a kill costs a second and not five.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

import jax

from upsilon_jax import command, commandline
from upsilon_jax.runtime import compilation

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.faults.imported"])


class Before(NamedTuple):
    """Before the n-th call of a function: "package.module:name"."""

    function: str
    call: int = 1


class After(NamedTuple):
    """When the n-th call of a function has returned."""

    function: str
    call: int = 1


class FileEvent(NamedTuple):
    """Before the n-th file or folder of a workdir is opened, made, moved or removed."""

    workdir: str
    number: int


class Seconds(NamedTuple):
    """So many seconds from now."""

    seconds: float


Moment = Before | After | FileEvent | Seconds


class Ended(NamedTuple):
    """How a process ended: negative if a signal ended it."""

    code: int
    said: str  # on both streams

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def run(
    *args: str,
    workdir: pathlib.Path,
    first: tuple = (),
    log: pathlib.Path | None = None,
) -> Ended:
    """Runs the command, and waits for its end.

    Args:
      *args: its arguments, but for the workdir.
      workdir: of the run.
      first: a function and its arguments, called in the process before the command.
      log: gets what it says; None: a file beside the workdir.
    """
    log = log or workdir.with_name(f"{workdir.name}.log")
    argv = [*args, f"--workdir={workdir}"]
    compiled = jax.config.jax_compilation_cache_dir
    process = _SERVER.Process(target=_run, args=(argv, str(log), compiled, first))
    process.start()
    process.join(timeout=600)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"took too long; it said: {log.read_text('utf-8')}")
    return Ended(process.exitcode, log.read_text("utf-8"))


def _run(argv: list[str], log: str, compiled: str, first: tuple) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    compilation.enable_cache(compiled)
    if first:
        function, *args = first
        function(*args)
    sys.exit(commandline.call(command.COMMAND, command.main, argv))


def killed_at(moment: Moment) -> None:
    """Lets this process get a SIGKILL at a moment."""
    at(moment, lambda: os.kill(os.getpid(), signal.SIGKILL))


def at(moment: Moment, act: Callable[[], None]) -> None:
    """Lets this process call a function at a moment, once."""
    if isinstance(moment, Seconds):
        threading.Timer(moment.seconds, act).start()
    elif isinstance(moment, FileEvent):
        _at_file_event(moment, act)
    else:
        _at_call(moment, act)


def _at_call(moment: Before | After, act: Callable[[], None]) -> None:
    module, _, path = moment.function.partition(":")
    *holders, name = path.split(".")
    holder = importlib.import_module(module)
    for attribute in holders:
        holder = getattr(holder, attribute)
    function, left = getattr(holder, name), [moment.call]

    def watched(*args, **kwargs):
        left[0] -= 1
        if not left[0] and isinstance(moment, Before):
            act()
        value = function(*args, **kwargs)
        if not left[0] and isinstance(moment, After):
            left[0] = -1
            act()
        return value

    setattr(holder, name, watched)


_FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def _at_file_event(moment: FileEvent, act: Callable[[], None]) -> None:
    left = [moment.number]

    def count():
        left[0] -= 1
        if not left[0]:
            act()

    at_file_events(moment.workdir, count)


def at_file_events(workdir: str, act: Callable[[], None]) -> None:
    """Calls a function whenever a `FileEvent` of a workdir is about to happen."""

    def hook(event, args):
        if event in _FILE_EVENTS and str(args[0]).startswith(workdir):
            act()

    sys.addaudithook(hook)
