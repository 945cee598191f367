"""The runs that wait, the workers that take them, and what is told of both."""

from __future__ import annotations

import os
import pathlib
import re
import statistics
import sys
import time
from collections.abc import Mapping, Sequence

import tqdm

from upsilon_jax.config import ConfigDict
from upsilon_jax.errors import ConfigError, shortened
from upsilon_jax.runtime import interrupts, messages
from upsilon_jax.sweep import workers as processes
from upsilon_jax.sweep.workers import BUSY, Outcome, Task, Worker
from upsilon_jax.workdir.schema import DIVERGED, FINISHED

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_UNTIL_ASKED_AGAIN = 5.0  # for a run that another process is at


def train_all(
    configs: Mapping[str, ConfigDict], root: pathlib.Path, jobs: str | None
) -> bool:
    """Trains what is not trained yet; returns whether all finished or diverged.

    Args:
      configs: the folder of every run, and its config.
      root: where the folders are.
      jobs: how many runs at a time, as the user wrote it; None for the best.

    Raises:
      Interrupted: somebody wants it to stop; what ran is saved.
    """
    tasks = [
        Task(name, config, root / name, root / ".pretrained")
        for name, config in configs.items()
    ]
    return not tasks or _work(tasks, choose_jobs(jobs, len(tasks)))


def choose_jobs(told: str | None, num_tasks: int) -> int:
    """Without being told: one a core, where there is no accelerator to share.

    A small network keeps one core busy: two processes on one core each finish more runs
    than one on two (docs/performance.md).
    """
    if told is None:
        jobs = len(_cores()) if processes.backend() == "cpu" else 1
    else:
        jobs = parse_jobs(told)
    return min(jobs, num_tasks)


def parse_jobs(told: str) -> int:
    """What --jobs says; a ConfigError if it is no number of jobs."""
    # Python reads no number of thousands of digits.
    if not (re.fullmatch(r"\d{1,9}", told) and int(told)):
        line = f"--jobs={told}: must be a number, at least 1 and of at most 9 digits"
        raise ConfigError(shortened(line))
    return int(told)


def _cores() -> list[int]:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _work(tasks: Sequence[Task], jobs: int) -> bool:
    """Hands out tasks until all have ended."""
    waiting = [(0.0, task) for task in tasks]  # not before that time
    workers = [Worker(share) for share in processes.divided(_cores(), jobs)]
    shown = _Shown(len(tasks), jobs)
    try:
        with interrupts.listening():
            while waiting or any(worker.task for worker in workers):
                workers = [worker.renewed() for worker in workers]
                _hand_out(waiting, workers)
                shown.running([worker.task.name for worker in workers if worker.task])
                for worker in processes.ready(workers, _SECONDS_BETWEEN_LOOKS):
                    task, outcome = worker.ended()
                    if outcome.status == BUSY:
                        again = time.monotonic() + _SECONDS_UNTIL_ASKED_AGAIN
                        waiting.append((again, task))
                    else:
                        shown.end(outcome)
                if signum := interrupts.requested():
                    _stop(workers, signum)
                    raise interrupts.Interrupted(signum)
    finally:
        shown.close()
        for worker in workers:
            worker.close()
    return not shown.failed


def _hand_out(waiting: list[tuple[float, Task]], workers: Sequence[Worker]) -> None:
    """Gives every idle worker the first task that is due."""
    now = time.monotonic()
    for worker in workers:
        due = [entry for entry in waiting if entry[0] <= now]
        if due and not worker.task:
            waiting.remove(due[0])
            worker.begin(due[0][1])


def _stop(workers: Sequence[Worker], signum: int) -> None:
    """Lets every run save; waits for all of them."""
    for worker in workers:
        worker.stop(signum)
    for worker in workers:
        if worker.task:
            worker.ended()


class _Shown:
    """A line for every run that ends, and one for the whole sweep."""

    def __init__(self, total: int, jobs: int):
        self._jobs, self._total = jobs, total
        self._seconds: list[float] = []  # of runs that were trained here
        self.failed: list[Outcome] = []
        self._bar = tqdm.tqdm(
            total=total,
            unit="run",
            file=sys.stderr,
            disable=not (sys.stderr.isatty() and messages.are_shown()),
            dynamic_ncols=True,
            bar_format="{n}/{total} runs |{bar}| {elapsed} {postfix}",
        )
        self._ended = 0

    def running(self, names: Sequence[str]) -> None:
        """What is under way, and how long the rest will take."""
        self._bar.set_postfix_str(f"{self._left()}  now: {', '.join(names)}")

    def end(self, outcome: Outcome) -> None:
        """How a run ended."""
        self._ended += 1
        if outcome.trained:
            self._seconds.append(outcome.seconds)
        line = f"[{self._ended}/{self._total}] {outcome.name}: {outcome.status}"
        if outcome.accuracy is not None:
            line += f", accuracy {outcome.accuracy:.2%}"
        if outcome.message:
            line += f": {outcome.message}"
        self._bar.update()
        if messages.are_shown():
            self._bar.write(f"{line}  ({self._left()})", file=sys.stderr)
        if outcome.status not in (FINISHED, DIVERGED):
            self.failed.append(outcome)

    def close(self) -> None:
        """Says again what went wrong: it may have scrolled away."""
        self._bar.close()
        for outcome in self.failed:
            sys.stderr.write(
                f"not finished: {outcome.name} {outcome.status}: {outcome.message}\n"
            )

    def _left(self) -> str:
        """By the mean time of the runs so far, without those that were there."""
        if not self._seconds:
            return "time left: known after the first run"
        rest = (self._total - self._ended) * statistics.mean(self._seconds)
        return f"about {tqdm.tqdm.format_interval(rest / self._jobs)} left"
