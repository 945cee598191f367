"""The processes of one run: how this one joins the others, and how it leaves them.

JAX's runtime aborts a process whose peers are gone. So a command that takes part in a
cluster is the child of a small one that waits for it and says why (`parent.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from upsilon_jax.errors import ConfigError, ExitCode, UserError, shortened
from upsilon_jax.runtime import interrupts

# A process that is silent for so long is lost; JAX's own 100 s are long to wait for
# an answer, and threads that send heartbeats do not wait for Python or for XLA.
HEARTBEAT_SECONDS = 15
# Those that have ended wait for the first, which writes the results.
_LEAVE_SECONDS = 3600

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Place(NamedTuple):
    """What a process is told of its cluster; JAX asks the scheduler for the rest."""

    coordinator: str | None = None  # HOST:PORT of the first
    num_processes: int | None = None
    process_index: int | None = None


def parse_place(
    coordinator: str | None, num_processes: str | None, process_index: str | None
) -> Place:
    """What flags say; a ConfigError names the one that cannot be meant."""
    if coordinator is not None and not coordinator.rpartition(":")[2].isdecimal():
        raise ConfigError(f"--coordinator={coordinator}: must be HOST:PORT")
    count = _whole("num_processes", num_processes, least=1)
    index = _whole("process_index", process_index, least=0)
    if count is not None and index is not None and index >= count:
        raise ConfigError(
            f"--process_index={index}: must be below --num_processes={count}"
        )
    return Place(coordinator, count, index)


def _whole(flag: str, told: str | None, least: int) -> int | None:
    if told is None:
        return None
    # JAX counts in int32, and Python reads no number of thousands of digits.
    if re.fullmatch(r"\d{1,9}", told) and int(told) >= least:
        return int(told)
    line = f"--{flag}={told}: must be a whole number ≥ {least} of at most 9 digits"
    raise ConfigError(shortened(line))


@contextlib.contextmanager
def joined(place: Place) -> Iterator[None]:
    """Joins the others, and leaves together with them.

    One that fails leaves alone: the others may be waiting for it.
    """
    _end_with_parent()
    interrupts.expect_both()
    try:
        _connect(place)
    except BaseException as error:
        _leave_alone(error)
        raise
    try:
        yield
    except Exception as error:
        if not isinstance(error, UserError):
            # It may fail because another is gone. Then the runtime ends this process
            # within that time, and our parent says so.
            time.sleep(HEARTBEAT_SECONDS + 5)
        _leave_alone(error)
        raise


def _connect(place: Place) -> None:
    """In a thread of its own: a signal is answered while it waits for the others."""
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def initialize() -> None:
        import jax

        # It would take SIGTERM for itself; our loop asks all processes by itself.
        jax.config.update("jax_enable_preemption_service", False)
        local = (place.coordinator or "").rpartition(":")[0] in _LOOPBACK
        try:
            jax.distributed.initialize(
                *place,
                heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
                shutdown_timeout_seconds=_LEAVE_SECONDS,
                # else it listens to every network that this machine is part of
                coordinator_bind_address=place.coordinator if local else None,
            )
        except Exception as error:
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=initialize, daemon=True).start()
    error = ended.get()
    if isinstance(error, ValueError):
        raise ConfigError(
            "JAX finds no scheduler that would tell where the others are; say "
            "--coordinator=HOST:PORT --num_processes=N --process_index=I "
            f"({error})"
        ) from error
    if error:
        raise error


def _leave_alone(error: BaseException) -> None:
    """Lets the process end without JAX's goodbye, in which it waits for all others."""
    code = getattr(error, "exit_code", ExitCode.FAILED)

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)  # the last to be registered is the first to be called


def _end_with_parent() -> None:
    """A parent that is killed takes this process along; it holds our stdin open."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(128 + signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
