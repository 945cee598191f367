"""Files that are written whole or not at all, and the folders they are in."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator

from upsilon_jax.errors import WorkdirError, shortened


def check_place(path: pathlib.Path) -> None:
    """Raises a WorkdirError if a file cannot be written there, before any work."""
    if path.is_dir():
        raise WorkdirError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not path.is_file():  # as /dev/null, which must stay
        raise WorkdirError(f"{path}: is no file; give the name of one")
    if not path.absolute().parent.is_dir():
        raise WorkdirError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.absolute().parent, os.W_OK):
        raise WorkdirError(f"{path}: nothing may be written there")


@contextlib.contextmanager
def written_whole(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A place to write to; it becomes `path` when the block ends without an error.

    Raises:
      WorkdirError: nothing can be written there; one line says why.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with named_errors(path, "cannot be written"):
            # Through a link what is written would destroy the file it leads to.
            partial.unlink(missing_ok=True)
            yield partial
            os.replace(partial, path)
    finally:
        with contextlib.suppress(OSError):  # a disk that became read-only
            partial.unlink(missing_ok=True)


def make_folder(path: pathlib.Path) -> None:
    """Makes a folder if it is not there; a WorkdirError says why it cannot be."""
    with named_errors(path, "cannot be a folder"):
        path.mkdir(parents=True, exist_ok=True)


def check_folder(path: pathlib.Path) -> None:
    """Makes a folder, and raises a WorkdirError if no file can be written in it."""
    make_folder(path)
    with (
        named_errors(path, "cannot be written to"),
        tempfile.TemporaryFile(dir=path, buffering=0) as file,
    ):
        file.write(b"x")  # permissions tell nothing of a full disk


def remove(path: pathlib.Path) -> None:
    """Removes a file if it is there; a WorkdirError says why it cannot be."""
    with named_errors(path, "cannot be removed"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def named_errors(path: pathlib.Path, what: str) -> Iterator[None]:
    """What the operating system refuses becomes one line."""
    try:
        yield
    except OSError as error:
        _, reason = system_error(error)
        raise WorkdirError(shortened(f"{path}: {what} ({reason})")) from error


def system_error(error: BaseException) -> tuple[int | None, str]:
    """Number and text of what the operating system said; (None, "") if it was not it.

    Tensorstore raises a ValueError with the number in its text.
    """
    if isinstance(error, OSError):
        return error.errno, error.strerror or str(error)
    code = re.search(r"os_error_code='(\d+)'", str(error))
    return (int(code[1]), os.strerror(int(code[1]))) if code else (None, "")
