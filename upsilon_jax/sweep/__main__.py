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
from collections.abc import Mapping

from upsilon_jax.runtime import interrupts

NAME = "python -m upsilon_jax.sweep"
if __name__ == "__main__":
    interrupts.answer(NAME)  # before the imports that take seconds

from upsilon_jax import commandline
from upsilon_jax.config import ConfigDict
from upsilon_jax.errors import ConfigError, ExitCode, nearest
from upsilon_jax.runtime import messages
from upsilon_jax.sweep import slurm
from upsilon_jax.sweep.grid import USUAL, grid
from upsilon_jax.sweep.queue import train_all
from upsilon_jax.sweep.workers import LOG
from upsilon_jax.workdir.place import local_path
from upsilon_jax.workdir.whole import check_folder

COMMAND = commandline.Command(
    name=NAME,
    about=__doc__,
    flags={
        "workdir": (None, "where results go [runs/sweep-NAME]"),
        "methods": (None, f'or "all" [that of --config, or {",".join(USUAL)}]'),
        "mismatch": ([], "shares of foreign images, 0 to 1 [the config's]"),
        "seeds": (["0-4"], "numbers and ranges [0-4]"),
        "jobs": (None, "runs at the same time [one a core; one on an accelerator]"),
        "launcher": ("local", "or slurm: submits every run as a job [local]"),
        "partition": (None, "of SLURM, for these jobs"),
        "time_limit": (
            None,
            "of a job: minutes, or H:MM:SS; it is requeued until done",
        ),
        "slurm": ((), "another option of sbatch, as gres=gpu:1; may be repeated"),
        "quiet": (False, "no progress, only what went wrong"),
    },
)
LAUNCHERS = ("local", "slurm")


def main(options: commandline.Options) -> int:
    """Trains what is not trained yet, or lets SLURM do it."""
    told = options.flags
    if told.quiet:
        messages.hush()
    root = local_path(told.workdir or f"runs/sweep-{options.config_name}")
    if told.launcher not in LAUNCHERS:
        raise ConfigError(
            f"--launcher={told.launcher}: {nearest(told.launcher, LAUNCHERS)}"
        )
    asked = slurm.parse_options(told.partition, told.time_limit, told.slurm)
    if asked and told.launcher != "slurm":
        raise ConfigError(f"{', '.join(asked)}: only --launcher=slurm takes this")
    configs, complete = grid(options), True
    check_folder(root)
    if told.launcher == "slurm":
        _submit(options, configs, root, asked)
    else:
        complete = train_all(configs, root, told.jobs)
    if messages.are_shown():
        sys.stderr.write(f"the table: python -m upsilon_jax.report {root}\n")
    return ExitCode.DONE if complete else ExitCode.FAILED


def _submit(
    options: commandline.Options,
    configs: Mapping[str, ConfigDict],
    root: pathlib.Path,
    asked: dict[str, str],
) -> None:
    assert options.config_file  # it takes a config
    number = slurm.submit(configs, options.config_file, root, asked, options.flags.jobs)
    if number and messages.are_shown():
        sys.stderr.write(
            f"submitted as job {number}; squeue --job={number} shows it, every run "
            f"writes {LOG} in its folder; the same command again submits what is not "
            "finished then\n"
        )


if __name__ == "__main__":
    commandline.run(COMMAND, main)
