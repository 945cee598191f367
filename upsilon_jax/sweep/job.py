"""What a job of SLURM does: it runs one command, and makes room when it is asked to.

It is imported on the machine of the job, where nothing of JAX is needed.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

from upsilon_jax.errors import ExitCode

# Comes before the time limit, and when another job goes first.
MAKE_ROOM = signal.SIGUSR2

_STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM)  # the second: before it could answer


def run(command: Sequence[str], log: pathlib.Path) -> int:
    """Runs a command until it has ended, or until it has saved and the job is requeued.

    SLURM signals every process of a job, the command too: `MAKE_ROOM` is for this one,
    which asks the command to save by SIGTERM and waits. A SIGTERM of SLURM reaches the
    command by itself, and the job is not requeued: somebody has cancelled it, or SLURM
    requeues it.

    Args:
      command: ends with 143 after SIGTERM, and goes on when it is started again.
      log: gets what it says, at its end.

    Returns:
      Its exit code, if the run is complete; else the process ends with it.
    """
    asked = False

    def make_room(signum, frame) -> None:
        nonlocal asked
        if not asked:
            asked = True
            child.send_signal(signal.SIGTERM)

    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(log, "a", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(MAKE_ROOM, signal.SIG_IGN),
        ) as child,
    ):
        # Until here submitit's own handler would requeue, and nothing be lost.
        signal.signal(MAKE_ROOM, make_room)
        signal.signal(signal.SIGTERM, lambda signum, frame: None)
        code = child.wait()
    if asked and code in _STOPPED:
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
    if code not in (ExitCode.DONE, ExitCode.DIVERGED):
        sys.exit(code if code >= 0 else 128 - code)
    return code
