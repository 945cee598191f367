"""SIGTERM and Ctrl-C: stop at the next safe point, after saving."""

from __future__ import annotations

import signal
import threading

import jax
import numpy as np
from jax.experimental import multihost_utils


class Interrupted(Exception):
    """A signal asked the run to stop; it was saved and goes on when started again."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum  # what a shell reports for a killed process


class Interrupts:
    """While open, the first signal raises a flag; a second one acts as usual."""

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self._signum: int | None = None
        self._previous = {}

    @property
    def pending(self) -> bool:
        """Whether a signal has come, to any process: they must stop together."""
        signum = self._signum or 0
        if jax.process_count() > 1:
            signum = int(multihost_utils.process_allgather(np.int32(signum)).max())
            self._signum = signum or None
        return signum > 0

    def check(self) -> None:
        """Raises Interrupted if a signal has come."""
        if self.pending:
            raise Interrupted(self._signum)

    def _note(self, signum, frame) -> None:
        self._signum = signum
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def __enter__(self):
        # Python lets only the main thread set handlers; elsewhere signals stay as is.
        if threading.current_thread() is threading.main_thread():
            for signum in self._SIGNALS:
                self._previous[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_) -> None:
        self._restore()
