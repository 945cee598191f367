"""Compiles the C++ files, and keeps and loads their libraries.

A library is kept in a folder that only the user can write to, as NAME-KEY-DIGEST.so:
the key is of all that it was compiled from, the digest of its bytes. So a library that
was cut short or changed is found out before it is loaded; it could end the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jaxlib

from upsilon_jax.runtime.folders import NotPrivate, check_private, private_cache

HERE = pathlib.Path(__file__).parent
# The machine's own vector instructions are most of the gain. They are why a library is
# never part of a wheel: on another processor it would end the process.
OPTIONS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
TIME_LIMIT = 120.0  # seconds for a run of the compiler
UNUSED_DAYS = 30  # after which a library is deleted: another version has replaced it


class NotBuilt(Exception):
    """Why there is no library. If the compiler failed: all that it printed."""

    @property
    def line(self) -> str:
        """The one line that says most."""
        lines = str(self).splitlines()
        return next((line for line in lines if "error" in line), lines[0])


class Built(NamedTuple):
    """A library that is loaded."""

    library: ctypes.CDLL
    path: pathlib.Path | None  # None if it could not be kept
    seconds: float  # that compiling took, 0 if it was found


def build(name: str, functions: Sequence[str] = ()) -> Built:
    """Loads the library of NAME.cc, and compiles it first where none can be loaded.

    A library must have the functions, else it is none of ours.
    """
    if os.name != "posix":
        raise NotBuilt("it is written for Linux and macOS")
    try:
        folder = private_folder()
        command = (*_compiler(), *OPTIONS, f"-I{jax.ffi.include_dir()}")
        prefix = f"{name}-{_key(name, command)}"
        found = _find(folder, prefix, functions) if folder else None
        found = found or _compile(name, command, folder, prefix)
    except OSError as error:
        raise NotBuilt(str(error)) from error
    missing = _missing(found.library, functions)
    if missing:
        raise NotBuilt(f"the compiled {name}.cc has no function {missing[0]}")
    return found


def private_folder() -> pathlib.Path | None:
    """The folder of libraries, the user's alone; None if there cannot be one."""
    try:
        return private_cache("native")
    except NotPrivate:
        raise
    except OSError:
        return None


def _compiler() -> list[str]:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        raise NotBuilt("no C++ compiler found: install g++, or name one by CXX")
    return compiler.split()


def _key(name: str, command: tuple[str, ...]) -> str:
    """A digest of all that the library depends on.

    The compiler's predefined macros stand for its version and for the processor.
    """
    sources = (HERE / f"{name}.cc", *sorted(HERE.glob("*.h")))
    texts = (source.read_text("utf-8") for source in sources)
    text = "\0".join((*texts, _macros(command), jaxlib.__version__, *command))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _macros(command: tuple[str, ...]) -> str:
    return _run(*command, "-x", "c++", "-E", "-dM", os.devnull)


def _missing(library: ctypes.CDLL, functions: Sequence[str]) -> list[str]:
    return [function for function in functions if not hasattr(library, function)]


def _find(folder: pathlib.Path, prefix: str, functions: Sequence[str]) -> Built | None:
    """A library in the folder that loads. One that does not is deleted."""
    for path in sorted(folder.glob(f"{prefix}-*.so")):
        check_private(path)
        with contextlib.suppress(OSError):  # it is for another system, perhaps
            if path.name == _library_name(prefix, path):
                library = ctypes.CDLL(os.fspath(path))
                if not _missing(library, functions):
                    path.touch()  # it is in use
                    return Built(library, path, 0.0)
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _library_name(prefix: str, path: pathlib.Path) -> str:
    return f"{prefix}-{hashlib.sha256(path.read_bytes()).hexdigest()[:32]}.so"


def _compile(
    name: str, command: tuple[str, ...], folder: pathlib.Path | None, prefix: str
) -> Built:
    _give_notice()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        fresh = pathlib.Path(scratch, f"{name}.so")
        _run(*command, os.fspath(HERE / f"{name}.cc"), "-o", os.fspath(fresh))
        kept = _keep(fresh, folder / _library_name(prefix, fresh)) if folder else None
        library = ctypes.CDLL(os.fspath(kept or fresh))
    return Built(library, kept, time.monotonic() - start)


@functools.cache
def _give_notice() -> None:
    """Once in a process. A warning, since the commands show nothing less."""
    logging.getLogger(__name__).warning(
        "compiling upsilon_jax's C++ code for this CPU (once; UPSILON_NATIVE=0 turns "
        "it off)"
    )


def _keep(fresh: pathlib.Path, path: pathlib.Path) -> pathlib.Path | None:
    """Copies a file, whole or not at all: other processes may do the same."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent) as beside:
            copy = pathlib.Path(beside, path.name)
            shutil.copyfile(fresh, copy)
            copy.chmod(0o600)
            _delete_unused(path.parent)
            return copy.replace(path)
    except OSError:  # the disk is full, or read-only
        return None


def _delete_unused(folder: pathlib.Path) -> None:
    """Deletes libraries that no process has loaded for long."""
    since = time.time() - UNUSED_DAYS * 24 * 3600
    for path in folder.glob("*.so"):
        with contextlib.suppress(OSError):  # another process was faster
            if path.stat().st_mtime < since:
                path.unlink()


def _run(*command: str) -> str:
    """What a command prints; a NotBuilt if it fails, or exceeds the time limit."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=TIME_LIMIT)
        except BaseException as error:
            # A compiler starts others, which would go on.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise NotBuilt(
                    f"{command[0]} took longer than {TIME_LIMIT:g} s"
                ) from error
            raise
    if process.returncode:
        raise NotBuilt(errors.strip() or f"{command[0]} failed without a word")
    return output
