"""Commands as real processes, to be stopped and starved."""

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
TINY = (
    "--config=digits:baseline",
    "--config.train.epochs=2",
    "--config.train.pretrain_epochs=0",
    "--config.data.num_unlabeled=32",
    "--config.data.augmentation=none",
    "--config.model.depth=10",
    "--config.model.width=1",
)


def start(*args, before=(), **kwargs):
    """main.py, both of its streams kept; `before` is a command that starts it."""
    return subprocess.Popen(
        [*before, sys.executable, str(ROOT / "main.py"), *args],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def finish(process):
    """(exit code, what it printed, what it said)."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def wait_for(condition, process, seconds=300):
    """Waits until the condition holds, or the process has ended."""
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "took too long"
        time.sleep(0.002)


def catches(pid, signum):
    """Whether a process has a handler for a signal."""
    with open(f"/proc/{pid}/status") as file:
        caught = next(line.split()[1] for line in file if line.startswith("SigCgt"))
    return int(caught, 16) >> (signum - 1) & 1


def signal_parent(signum, seconds=30):
    """Signals the parent of this process, once it has a handler."""
    end = time.monotonic() + seconds
    while not catches(os.getppid(), signum) and time.monotonic() < end:
        time.sleep(0.002)
    os.kill(os.getppid(), signum)
