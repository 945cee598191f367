"""Events for TensorBoard, as a writer in the manner of clu's."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from upsilon_jax.errors import WorkdirError, said


class TensorBoardWriter:
    """Writes in a thread, in order: a slow disk must not hold up steps.

    After an error nothing more is written. It is raised as a WorkdirError by a later
    call, at the latest by the next `flush`. (clu's own `AsyncWriter` logs a traceback.)
    """

    def __init__(self, folder: pathlib.Path):
        """Begins a file of events; a WorkdirError says why it cannot be."""
        from clu.metric_writers import SummaryWriter

        self._folder = folder
        with self._named_errors():
            self._events = SummaryWriter(str(folder))
        self._thread = ThreadPoolExecutor(1, "tensorboard")
        self._last: Future[None] | None = None

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Numbers by name."""
        self._later(self._events.write_scalars, step, scalars)

    def write_histograms(
        self,
        step: int,
        arrays: Mapping[str, np.ndarray],
        num_buckets: Mapping[str, int],
    ) -> None:
        """Values by name, counted in so many buckets."""
        self._later(self._events.write_histograms, step, arrays, num_buckets)

    def flush(self) -> None:
        """Waits until all is written."""
        self._later(self._events.flush, wait=True)

    def close(self) -> None:
        """Ends the file."""
        try:
            self._later(self._events.close, wait=True)
        finally:
            self._thread.shutdown()

    def _later(self, call: Callable[..., None], *args: Any, wait: bool = False) -> None:
        with self._named_errors():
            if self._last and self._last.done():
                self._last.result()
            self._last = self._thread.submit(_after, self._last, call, *args)
            if wait:
                self._last.result()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        from tensorflow.errors import OpError

        try:
            yield
        except OpError as error:  # what the system said stands somewhere in its text
            texts = (os.strerror(code) for code in errno.errorcode)
            reason = next((text for text in texts if text in str(error)), said(error))
            line = f"{self._folder}: cannot be written ({reason})"
            raise WorkdirError(line) from error


def _after(before: Future[None] | None, call: Callable[..., None], *args: Any) -> None:
    """Calls it, unless what came before has failed."""
    if before:
        before.result()
    call(*args)
