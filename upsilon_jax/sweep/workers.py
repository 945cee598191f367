"""Processes that train the runs of a sweep, each on cores of its own.

A worker takes one run after the other and tells how it ended. If it dies (out of
memory, a fault in compiled code) only its run is lost, and another worker takes its
place. Whoever started a run first has locked its folder: a second sweep takes others.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from upsilon_jax.config import ConfigDict
from upsilon_jax.config.from_data import left_open
from upsilon_jax.errors import UserError, WorkdirError, WorkdirInUse
from upsilon_jax.runtime import interrupts
from upsilon_jax.workdir.files import find_result
from upsilon_jax.workdir.place import runs_of
from upsilon_jax.workdir.whole import named_errors

LOG = "log.txt"  # in the folder of a run: what it would have shown

# How a run ended, beside the result's own "finished" and "diverged".
REFUSED, CRASHED, BUSY, STOPPED = "refused", "crashed", "busy", "stopped"

_SPAWN = multiprocessing.get_context("spawn")  # a fork would take JAX's threads along


class Task(NamedTuple):
    """A run that is to be trained."""

    name: str
    config: ConfigDict
    workdir: pathlib.Path
    pretrained: pathlib.Path  # see `training.pretrained`


class Outcome(NamedTuple):
    """How a run ended."""

    name: str
    status: str
    accuracy: float | None = None
    message: str = ""
    seconds: float = 0.0
    trained: bool = False  # here; else its result was there, or it has none


class Worker:
    """A process, as seen by the one that started it."""

    def __init__(self, cores: Sequence[int]):
        """Starts a process that may use these cores; none: as many as it likes."""
        self.connection, theirs = _SPAWN.Pipe()
        self._cores = cores
        self._process = _SPAWN.Process(target=_serve, args=(theirs, cores))
        self._process.start()
        theirs.close()  # else its end would go unnoticed
        self.task: Task | None = None
        self._start = 0.0

    def begin(self, task: Task) -> None:
        """Gives it a run; only if it has none."""
        self.task, self._start = task, time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it has died, and `ended` says so
            self.connection.send(task)

    def ended(self) -> tuple[Task, Outcome]:
        """The run it had, and how that ended; waits for it."""
        task, self.task = self.task, None
        assert task  # nobody waits for a worker that has none
        seconds = time.monotonic() - self._start
        try:
            return task, self.connection.recv()._replace(seconds=seconds)
        except (EOFError, ConnectionError):
            self._process.join()
            message = f"the process ended with exit code {self._process.exitcode}"
            return task, Outcome(task.name, CRASHED, message=message, seconds=seconds)

    def renewed(self) -> Worker:
        """This worker, or another in its place if it has died.

        One that had a run stays until `ended` has told of it.
        """
        return self if self.task or self._process.is_alive() else Worker(self._cores)

    def stop(self, signum: int) -> None:
        """Asks its run to save and end, as the signal does."""
        if self.task and self._process.pid and self._process.is_alive():
            os.kill(self._process.pid, signum)

    def close(self) -> None:
        """Lets it end."""
        self.connection.close()
        self._process.join()


def is_complete(config: ConfigDict, workdir: pathlib.Path) -> bool:
    """Whether every seed has a result; what is wrong with a folder its run will say."""
    with contextlib.suppress(UserError):
        return all(
            find_result(folder, run.to_dict(), override=False, left_open=left_open(run))
            for folder, run in runs_of(config, workdir).items()
        )
    return False


def ready(workers: Sequence[Worker], seconds: float) -> list[Worker]:
    """Workers whose run has ended; waits for one, at most so long."""
    busy = [worker for worker in workers if worker.task]
    heard = wait([worker.connection for worker in busy], seconds)
    return [worker for worker in busy if worker.connection in heard]


def divided(cores: Sequence[int], jobs: int) -> list[list[int]]:
    """The cores of each job, as many for each as possible; shared if there are less."""
    if jobs > len(cores):
        return [list(cores)] * jobs
    share = len(cores) // jobs
    return [list(cores[job * share : (job + 1) * share]) for job in range(jobs)]


def backend() -> str:
    """The kind of device that a worker would use.

    Asked in a process of its own: the one that asks must leave an accelerator alone.
    """
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_tell_backend, args=(theirs,))
    process.start()
    theirs.close()  # else its end would go unnoticed
    try:
        return ours.recv()
    except EOFError:
        raise UserError("JAX finds no device; see above") from None
    finally:
        process.join()


def _tell_backend(connection: Connection) -> None:
    import jax

    connection.send(jax.default_backend())


def _serve(connection: Connection, cores: Sequence[int]) -> None:
    """The life of a worker."""
    # Ctrl-C in a terminal reaches a whole group of processes. This one is told by
    # `Worker.stop`: a second signal would not wait until the run is saved.
    os.setpgrp()
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)  # before JAX starts its threads
    from upsilon_jax.commandline import set_up_process

    set_up_process()
    interrupts.expect_both()  # a scheduler signals this process, and our parent too
    with contextlib.suppress(EOFError):  # nobody is there any more
        while True:
            connection.send(_outcome(connection.recv()))


def _outcome(task: Task) -> Outcome:
    """How a run ends; also where not even its log can be written."""
    log = task.workdir / LOG
    try:
        with named_errors(log, "cannot be written"):
            task.workdir.mkdir(parents=True, exist_ok=True)
            with _written_to(log):
                return _train(task)
    except WorkdirError as error:
        return Outcome(task.name, REFUSED, message=str(error))


def _train(task: Task) -> Outcome:
    from upsilon_jax.training.seeds import train

    try:
        found = is_complete(task.config, task.workdir)
        result: dict[str, Any] = train(
            task.config, task.workdir, pretrained=task.pretrained
        )
    except WorkdirInUse as error:
        return Outcome(task.name, BUSY, message=str(error))
    except UserError as error:
        return Outcome(task.name, REFUSED, message=" ".join(str(error).split()))
    except KeyboardInterrupt:
        message = "its process was told to; the same command goes on with it"
        return Outcome(task.name, STOPPED, message=message)
    except Exception as error:
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome(task.name, CRASHED, message=f"{message} (see {LOG})")
    status, accuracy = result["status"], result["accuracy"]
    return Outcome(task.name, status, accuracy, trained=not found)


@contextlib.contextmanager
def _written_to(path: pathlib.Path):
    """What this process and its libraries print goes to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(path, "a", encoding="utf-8") as file:
        kept = os.dup(1), os.dup(2)
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError):  # a full disk: the run counts
                    stream.flush()
            for descriptor, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)
