"""A peer in a process of its own, with nothing set up but what it sets up itself."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Self


class Elsewhere:
    """Calls a function in another process; a context that ends with the process."""

    def __init__(self, make: Callable[..., Callable[[], Any]], *args: Any):
        """The process begins with `call = make(*args)`, both sent there by pickle."""
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(there, make, args), daemon=True
        )

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def __call__(self) -> Any:
        """What `call()` returns there."""
        self._here.send(None)
        while not self._here.poll(1.0):
            if not self._process.is_alive():
                raise RuntimeError("the other process has ended: see its error above")
        return self._here.recv()


def _serve(connection: Connection, make: Callable, args: tuple) -> None:
    call = make(*args)
    while True:
        connection.recv()
        connection.send(call())
