"""Many runs of one config:  python -m upsilon_jax.sweep --config=configs/digits.py.

Every combination of methods, mismatch ratios and seeds is trained, each in a folder of
its own under --workdir, several at a time. Finished runs are passed over and an
interrupted one goes on, so the same command again completes a sweep; started twice, the
second takes other runs than the first. `python -m upsilon_jax.report DIR` makes the
table.
"""

from __future__ import annotations

import sys

from upsilon_jax.runtime import interrupts

NAME = "python -m upsilon_jax.sweep"
if __name__ == "__main__":
    interrupts.answer(NAME)  # before the imports that take seconds

from upsilon_jax import commandline
from upsilon_jax.errors import ExitCode
from upsilon_jax.runtime import messages
from upsilon_jax.sweep.grid import grid
from upsilon_jax.sweep.queue import train_all
from upsilon_jax.workdir.place import local_path

COMMAND = commandline.Command(
    name=NAME,
    about=__doc__,
    flags={
        "workdir": (None, "where results go [runs/sweep-NAME]"),
        "methods": (["baseline", "pl", "upsilon"], 'or "all" [baseline,pl,upsilon]'),
        "mismatch": ([], "shares of foreign images, 0 to 1 [the config's]"),
        "seeds": (["0-4"], "numbers and ranges [0-4]"),
        "jobs": (None, "runs at the same time [one a core; one on an accelerator]"),
        "quiet": (False, "no progress, only what went wrong"),
    },
)


def main(options: commandline.Options) -> int:
    """Trains what is not trained yet."""
    if options.flags.quiet:
        messages.hush()
    root = local_path(options.flags.workdir or f"runs/sweep-{options.config_name}")
    complete = train_all(grid(options), root, options.flags.jobs)
    if messages.are_shown():
        sys.stderr.write(f"the table: python -m upsilon_jax.report {root}\n")
    return ExitCode.DONE if complete else ExitCode.FAILED


if __name__ == "__main__":
    commandline.run(COMMAND, main)
