"""One process at a time in a workdir."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import socket
from collections.abc import Iterator

from upsilon_jax.errors import WorkdirError, WorkdirInUse

_LOCK = ".lock"


@contextlib.contextmanager
def locked(workdir: pathlib.Path) -> Iterator[None]:
    """Makes the workdir if it is not there, and holds it.

    Raises:
      WorkdirInUse: another process holds it; the line names that process.
      WorkdirError: nothing can be written there.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        descriptor = _open(workdir / _LOCK)
    except OSError as error:
        raise WorkdirError(
            f"{_shown(workdir)}: cannot be a workdir ({error.strerror or error})"
        ) from error
    # Without a buffer: what a full disk did not take would be written again at the end.
    with open(descriptor, "rb+", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().decode("utf-8", "replace").strip()
            raise WorkdirInUse(
                f"{workdir} is in use by {holder or 'another process'}; wait for it, "
                "or give another --workdir"
            ) from None
        except OSError as error:
            raise WorkdirError(
                f"{workdir}: cannot be locked ({error.strerror}); give a --workdir on "
                "another file system"
            ) from error
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield


def _open(path: pathlib.Path) -> int:
    """A link is not followed: what is written would destroy the file it leads to."""
    if path.is_symlink():
        raise WorkdirError(f"{path}: is a link to another file; remove it")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def _shown(path: pathlib.Path) -> str:
    """The path, shortened where the name is too long to be one."""
    text = str(path)
    return text if len(text) < 200 else f"{text[:100]}…{text[-60:]}"
