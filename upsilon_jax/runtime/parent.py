"""A small process that waits for one of a cluster, and says why it has ended.

The child is the same command. JAX's runtime aborts it when another process of the run
is lost: a hundred lines, and no exit code that would tell anything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

from upsilon_jax.errors import ConfigError, PeerLost

_CHILD = "UPSILON_JAX_CHILD"  # in the environment of a child

# How the runtime begins when it has bad news of the cluster.
_RUNTIME = re.compile(
    rb"[EF]\d{4} [^\]]*(coordination_service\w*\.cc|client\.h|add_port)"
)
_FATAL = b"JAX distributed service detected fatal errors"
_SILENT = re.compile(
    rb"Task (\d+) heartbeat timeout|stopped sending heartbeats\):\s+(\d+)"
)
_SECONDS_TO_END = 30.0  # for a child whose runtime has spoken

_AGAIN = (
    "Start all processes again with the same command; they go on from the newest "
    "checkpoint"
)


def is_child() -> bool:
    """Whether this process has such a parent."""
    return _CHILD in os.environ


def wait_for_child() -> int:
    """Runs the command of this process in a child; returns its exit code.

    Signals are passed on. What the child writes to stderr is passed on as well, but for
    the runtime's account of a lost peer.

    Raises:
      PeerLost: another process of the run has ended, or was never there.
      ConfigError: the coordinator's port is taken.
    """
    with subprocess.Popen(
        [sys.executable, *sys.orig_argv[1:]],
        env={**os.environ, _CHILD: "1"},
        stdin=subprocess.PIPE,  # closed by our end, whatever that is
        stderr=subprocess.PIPE,
        process_group=0,  # Ctrl-C reaches it through us alone
    ) as child:
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda signum, frame: child.send_signal(signum))
        account = _pass_on(child)
        code = child.wait()
    if b"Failed to add port to server" in account:
        raise ConfigError("--coordinator: its port is taken on this machine")
    if _FATAL in account and code == -signal.SIGABRT:
        raise PeerLost(_why(account))
    _write(account)
    return code if code >= 0 else 128 - code


def _pass_on(child: subprocess.Popen[bytes]) -> bytes:
    """Passes its stderr on until the runtime speaks, and returns all from there.

    If the child goes on nevertheless, so does this.
    """
    assert child.stderr  # it is a pipe
    held, begin = b"", 0.0
    for line in child.stderr:
        if held and time.monotonic() - begin > _SECONDS_TO_END:
            _write(held)
            held = b""
        if _RUNTIME.match(line) and not held:
            begin = time.monotonic()
            held = line
        elif held:
            held += line
        else:
            _write(line)
    return held


def _write(text: bytes) -> None:
    sys.stderr.buffer.write(text)
    sys.stderr.buffer.flush()


def _why(account: bytes) -> str:
    if b"RegisterTask" in account:
        return "the other processes did not come, or the coordinator was not there"
    silent = _SILENT.search(account)
    # Where nothing was silent, the coordinator itself is gone.
    number = int(silent[1] or silent[2]) if silent else 0
    return f"lost process {number}: it has ended or cannot be reached. {_AGAIN}"
