"""Many runs of one config:  python -m upsilon_jax.sweep --config=configs/digits.py.

Every combination of methods, mismatch ratios and seeds is trained, each in a folder of
its own under --workdir, several at a time. Finished runs are passed over and an
interrupted one goes on, so the same command again completes a sweep; started twice, the
second takes other runs than the first. `python -m upsilon_jax.report DIR` makes the
table.
"""

from __future__ import annotations

import pathlib
import sys

from upsilon_jax import commandline
from upsilon_jax.errors import ConfigError
from upsilon_jax.sweep.grid import grid
from upsilon_jax.sweep.queue import cores, work
from upsilon_jax.sweep.workers import Task, backend

COMMAND = commandline.Command(
    name="python -m upsilon_jax.sweep",
    about=__doc__,
    flags={
        "workdir": (None, "where results go [runs/sweep-NAME]"),
        "methods": (["baseline", "pl", "upsilon"], 'or "all" [baseline,pl,upsilon]'),
        "mismatch": ([], "shares of foreign images, 0 to 1 [the config's]"),
        "seeds": (["0-4"], "numbers and ranges [0-4]"),
        "jobs": (None, "runs at the same time [one a core; one on an accelerator]"),
    },
)

EXIT_INCOMPLETE = 1  # some runs crashed or were refused


def main(options: commandline.Options) -> int:
    """Trains what is not trained yet."""
    root = pathlib.Path(options.flags.workdir or f"runs/sweep-{options.config_name}")
    tasks = [
        Task(name, config, root / name, root / ".pretrained")
        for name, config in grid(options).items()
    ]
    complete = work(tasks, _jobs(options.flags.jobs, len(tasks)))
    sys.stderr.write(f"the table: python -m upsilon_jax.report {root}\n")
    return 0 if complete else EXIT_INCOMPLETE


def _jobs(told: str | None, num_tasks: int) -> int:
    """Without being told: one a core, where there is no accelerator to share.

    A small network keeps one core busy: two processes on one core each finish more runs
    than one on two (docs/performance.md).
    """
    if told is None:
        return min(len(cores()) if backend() == "cpu" else 1, num_tasks)
    if not told.isdecimal() or not int(told):
        raise ConfigError(f"--jobs={told}: must be a number, at least 1")
    return min(int(told), num_tasks)


if __name__ == "__main__":
    commandline.run(COMMAND, main)
