"""Results that are slow to make, kept in the user's cache for the next start.

Nothing depends on it: any file may be removed at any time, and is made again when it is
needed. A file gets its name only when it is complete, so no process ever reads half of
one, even if another is killed or writes the same file at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import io
import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from upsilon_jax.runtime.folders import user_cache

SWITCH = "UPSILON_PIXEL_CACHE"  # set to "0", nothing is kept
MAX_BYTES = 8 * 2**30  # of all files; beyond it those go that were unused the longest
MIN_FREE_BYTES = 2**30  # left to others on the disk

_SHA_BYTES = 32


def folder() -> pathlib.Path | None:
    """Where files are kept; None if nothing is to be kept."""
    if os.environ.get(SWITCH) == "0":
        return None
    with contextlib.suppress(OSError):  # there is no home
        return user_cache("pixels")
    return None


def write(path: pathlib.Path, fill: Callable[[IO[bytes]], Any], num_bytes: int) -> bool:
    """Makes a file of about `num_bytes`; False, and one note, if that cannot be."""
    unfinished = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_room(num_bytes)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            unfinished = file.name
            fill(file)
        os.replace(unfinished, path)
        return True
    except OSError as error:
        if unfinished:
            remove(unfinished)
        _note(str(path.parent), error.strerror)
        return False


def mark_used(path: os.PathLike) -> None:
    """Notes that a file was used: the longest unused are removed first."""
    with contextlib.suppress(OSError):
        os.utime(path)


def remove(path: os.PathLike | str) -> None:
    """Removes a file, if it is still there."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def load_table(name: str, dtype: np.dtype) -> np.ndarray | None:
    """The table [n] that `save_table` kept; None if there is none, or a damaged one."""
    root = folder()
    if root is None:
        return None
    path = root / f"{name}.npy"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body, sha = data[:-_SHA_BYTES], data[-_SHA_BYTES:]
    if hashlib.sha256(body).digest() != sha:
        remove(path)
        return None
    table = np.load(io.BytesIO(body), allow_pickle=False)
    mark_used(path)
    return table if table.dtype == dtype else None


def save_table(name: str, table: np.ndarray) -> None:
    """Keeps an array, with its sha256 behind it."""
    root = folder()
    if root is None:
        return
    body = io.BytesIO()
    np.save(body, table, allow_pickle=False)
    data = body.getvalue() + hashlib.sha256(body.getvalue()).digest()
    write(root / f"{name}.npy", lambda file: file.write(data), len(data))


def file_key(path: os.PathLike | str) -> str:
    """Path, size and time of change: a file with the same three is not read again.

    Raises:
      OSError: there is no such file.
    """
    status = os.stat(path)
    return repr((os.path.abspath(path), status.st_size, status.st_mtime_ns))


def _make_room(num_bytes: int) -> None:
    root = folder()
    assert root  # else nothing would be written
    if shutil.disk_usage(root).free < num_bytes + MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    files = sorted(_files(root))
    excess = sum(size for _, size, _ in files) + num_bytes - MAX_BYTES
    for _, size, path in files:
        if excess <= 0:
            return
        remove(path)
        excess -= size


def _files(root: pathlib.Path) -> Iterator[tuple[int, int, str]]:
    """(time of last use, size, path) of all files that are kept."""
    for here, _, names in os.walk(root):
        for name in names:
            path = os.path.join(here, name)
            with contextlib.suppress(OSError):  # another process has removed it
                status = os.stat(path)
                yield status.st_mtime_ns, status.st_size, path


@functools.cache  # says each thing once
def _note(where: str, reason: str | None) -> None:
    logging.getLogger(__name__).warning(
        "images are decoded at every start: %s cannot be written (%s)", where, reason
    )
