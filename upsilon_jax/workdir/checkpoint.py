"""Checkpoints: orbax, with a checksum, a lock, and a fall back to an older step.

Orbax writes atomically and asynchronously, but it neither checks array payloads nor
locks the folder, and `latest_step()` may name one that cannot be read. So every
one carries a digest of its arrays, and the newest that verifies is restored.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import socket
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from upsilon_jax.errors import WorkdirError, WorkdirInUse

_FOLDER = "checkpoints"

# Orbax keeps the number of the save under way in a class attribute. Two threads that
# start to save at the same time (two seeds) take each other's, and one waits for ever.
_starting = threading.Lock()


_NO_MATCH = "its arrays do not match their checksum"


class Checkpoint(NamedTuple):
    """What is kept: the arrays, and a JSON-able record (history and the like)."""

    number: int
    state: Any
    record: dict


def tree_digest(tree: Any) -> str:
    """sha256 over names, dtypes, shapes and bytes of all arrays of a tree."""
    sha = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        sha.update(f"{jax.tree_util.keystr(path)}{array.dtype}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _digests(state: Any) -> dict[str, str]:
    """Of every part of a state, so that one part can be read and checked alone."""
    parts = state._asdict() if hasattr(state, "_asdict") else state
    return {name: tree_digest(part) for name, part in parts.items()}


def _matches(state: Any, digests: dict[str, str] | None, digest: str | None) -> bool:
    """Whether a state is what was saved; earlier versions kept one digest of it all."""
    return digests == _digests(state) if digests else digest == tree_digest(state)


def _why(error: Exception) -> str:
    """One line on a failed restore.

    Orbax raises KeyError, ValueError, OSError, JSONDecodeError or a bare Exception,
    depending on which of its files is damaged.
    """
    return " ".join([f"{type(error).__name__}:", *str(error).splitlines()[:1]])


@contextlib.contextmanager
def locked(workdir: pathlib.Path) -> Iterator[None]:
    """Holds the workdir: a second process gets a WorkdirInUse that names the first."""
    path = workdir / ".lock"
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise WorkdirInUse(
                f"{workdir} is in use by {file.read().strip() or 'another process'}; "
                "wait for it, or give another --workdir"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def has_checkpoint(workdir: pathlib.Path) -> bool:
    """Whether a run in this folder has saved anything yet."""
    return any(path.name.isdigit() for path in (workdir / _FOLDER).glob("*"))


class Checkpoints:
    """The checkpoints of one workdir, newest `keep` of them."""

    def __init__(self, workdir: pathlib.Path, keep: int):
        self._folder = workdir.absolute() / _FOLDER
        self._quarantine = workdir.absolute() / "corrupt"
        self._newest: int | None = None
        self._manager = ocp.CheckpointManager(
            self._folder,
            options=ocp.CheckpointManagerOptions(
                max_to_keep=keep, enable_async_checkpointing=True
            ),
        )

    def save(self, number: int, state: Any, record: dict) -> None:
        """Starts writing, under a number above all earlier ones, unless it is there.

        Errors of the previous one surface here, or in `close`.
        """
        if number == self._newest:
            return
        record = {**record, "digests": _digests(state)}
        with _starting, self._named_errors():
            saved = self._manager.save(
                number,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(state), record=ocp.args.JsonSave(record)
                ),
            )
        if not saved:
            raise WorkdirError(f"{self._folder}: checkpoint {number} was not saved")
        self._newest = number

    def has_any(self) -> bool:
        """Whether something was saved, usable or not."""
        return bool(self._manager.all_steps())

    def restore(self, template: Any) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that verifies, or None if none was ever saved.

        Those that do not are moved to `corrupt/`, so that nothing overwrites them.

        Args:
          template: a state of the same structure, shapes, dtypes and shardings.

        Returns:
          The checkpoint, and one line for every one that had to be passed over.
        """
        complaints = []
        for number in sorted(self._manager.all_steps(), reverse=True):
            checkpoint, complaint = self._read(number, template)
            if checkpoint:
                self._newest = number
                return checkpoint, complaints
            complaints.append(f"checkpoint {number} cannot be used: {complaint}")
            self._set_aside(number)
        if complaints:
            raise WorkdirError(
                f"{self._folder}: no checkpoint can be used. " + "; ".join(complaints)
            )
        return None, complaints

    def _read(self, number: int, template: Any) -> tuple[Checkpoint | None, str]:
        try:
            restored = self._manager.restore(
                number,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(template),
                    record=ocp.args.JsonRestore(),
                ),
            )
        except Exception as error:  # see `_why`
            return None, _why(error)
        record, state = dict(restored["record"]), restored["state"]
        if not _matches(state, record.pop("digests", None), record.pop("digest", None)):
            return None, _NO_MATCH
        return Checkpoint(number, state, record), ""

    def _set_aside(self, number: int) -> None:
        self._quarantine.mkdir(exist_ok=True)
        target = self._quarantine / str(number)
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(self._folder / str(number), target)
        self._manager.reload()

    def close(self) -> None:
        """Waits until everything is on disk."""
        with self._named_errors():
            self._manager.wait_until_finished()
            self._manager.close()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            raise WorkdirError(f"{self._folder}: cannot save: {error}") from error


def restore_part(workdir: pathlib.Path, part: str, like: Any) -> tuple[Any, list[str]]:
    """One part of the state in the newest checkpoint whose part verifies.

    For those who use a model: nothing is locked, moved or written, and the rest of the
    state need not be known. The arrays go where `like` says, whatever devices they were
    saved from.

    Args:
      workdir: of the run.
      part: a field of the state, such as "ema".
      like: its tree of `jax.ShapeDtypeStruct`, with shardings.

    Returns:
      The part, and one line for every checkpoint that had to be passed over.
    """
    folder = workdir.absolute() / _FOLDER
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    complaints = []
    for number in sorted((int(name) for name in names if name.isdigit()), reverse=True):
        found, complaint = _read_part(folder / str(number), part, like)
        if not complaint:
            return found, complaints
        complaints.append(f"checkpoint {number} cannot be used: {complaint}")
    reason = "; ".join(complaints) or "none was saved"
    raise WorkdirError(f"{workdir}: there is no checkpoint to use: {reason}")


def _read_part(folder: pathlib.Path, part: str, like: Any) -> tuple[Any, str]:
    item = {part: like}
    state = ocp.args.PyTreeRestore(
        item=item,
        restore_args=ocp.checkpoint_utils.construct_restore_args(item),
        partial_restore=True,
    )
    both = ocp.args.Composite(state=state, record=ocp.args.JsonRestore())
    try:
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
            restored = checkpointer.restore(folder, args=both)
        found, record = restored["state"][part], restored["record"]
    except Exception as error:  # see `_why`
        return None, _why(error)
    if "digests" not in record:  # an earlier version kept none of the parts
        return found, ""
    matches = record["digests"][part] == tree_digest(found)
    return (found, "") if matches else (None, _NO_MATCH)
