"""SIGTERM and Ctrl-C: stop at the next safe point, after saving.

A program calls `install`, training declares itself with `listening` and looks with
`check` wherever it could stop. Outside of `listening` signals act as they always did,
but in our commands (`answer`, `raised`) they are one line and an exit code.

JAX is imported only where it is asked: a command answers before it has loaded it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(KeyboardInterrupt):
    """A signal asked to stop; training has saved and goes on when started again."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum  # what a shell reports for a killed process


class _Signals:
    """What has come to this process, and who waits for it."""

    listeners = 0
    request: int | None = None  # the first signal since `listening` was opened
    previous: dict[int, Any] = {}  # handlers from before `install`
    raised = False  # whether a signal becomes Interrupted where nobody listens
    seconds_for_both = 0.0  # in which the same signal comes twice and means once
    time = 0.0  # of the request


def answer(name: str) -> None:
    """What a command does first: a signal ends it with a line and an exit code.

    At once, without any clearing up: an exception may be lost in the imports that
    follow, and nothing is written before `raised`.
    """

    def leave(signum, frame) -> None:
        os.write(2, f"{name}: {Interrupted(signum)}\n".encode())
        os._exit(Interrupted(signum).exit_code)

    for signum in _SIGNALS:
        signal.signal(signum, leave)


def expect_both() -> None:
    """For a process whose parent passes signals on.

    A scheduler signals every process of a job: such a process hears it twice, and must
    not take the second for that of somebody who cannot wait.
    """
    _Signals.seconds_for_both = 1.0


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """While open, the first signal raises Interrupted where nobody listens."""
    _Signals.raised = True
    try:
        yield
    finally:
        _Signals.raised, _Signals.request = False, None


def install() -> None:
    """Lets the first signal wait for `check`; a second one acts as usual.

    Python lets only the main thread set handlers: elsewhere this does nothing.
    """
    if threading.current_thread() is threading.main_thread() and not _Signals.previous:
        for signum in _SIGNALS:
            _Signals.previous[signum] = signal.signal(signum, _note)


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """While open, a signal waits: whoever opened this calls `check` now and then."""
    _Signals.listeners += 1
    try:
        yield
    finally:
        _Signals.listeners -= 1
        if not _Signals.listeners:
            _Signals.request = None


def request(signum: int) -> None:
    """Asks whoever listens to stop, as the signal would."""
    _Signals.request = signum


def requested() -> int | None:
    """The signal that has come, if one has."""
    return _Signals.request


def check() -> None:
    """Raises Interrupted if a signal has come.

    Of several processes none may stop alone: there, only `check_together` does it.
    """
    if _Signals.request and _num_processes() == 1:
        raise Interrupted(_Signals.request)


def check_together() -> None:
    """Raises Interrupted in every process if a signal has come to one of them.

    They must all call it at the same point; it waits for the slowest.
    """
    if _num_processes() > 1:
        import numpy as np
        from jax.experimental import multihost_utils

        asked = multihost_utils.process_allgather(np.int32(_Signals.request or 0))
        _Signals.request = int(asked.max()) or None
    if _Signals.request:
        raise Interrupted(_Signals.request)


def _num_processes() -> int:
    import jax

    return jax.process_count()


def _note(signum, frame) -> None:
    since = time.monotonic() - _Signals.time
    if _Signals.request == signum and since < _Signals.seconds_for_both:
        return
    if not _Signals.request and (_Signals.listeners or _Signals.raised):
        _Signals.request, _Signals.time = signum, time.monotonic()
        if _Signals.listeners:
            return
        raise Interrupted(signum)
    signal.signal(signum, _Signals.previous[signum])
    try:
        signal.raise_signal(signum)
    finally:
        signal.signal(signum, _note)
