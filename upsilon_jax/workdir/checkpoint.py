"""Checkpoints: orbax, with checksums and a fall back to an older step.

Orbax writes atomically and asynchronously, but it does not check array payloads, and
`latest_step()` may name one that cannot be read. So every one is sealed (`seal.py`),
and the newest whose seal is whole is restored.
"""

from __future__ import annotations

import contextlib
import errno
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp

from upsilon_jax.errors import WorkdirError
from upsilon_jax.runtime import memory
from upsilon_jax.workdir.saved import (
    CHECKPOINTS,
    DAMAGED,
    START_OVER,
    checkpoint_numbers,
    has_saved,
    mark_saved,
    unused,
)
from upsilon_jax.workdir.seal import (
    Damaged,
    arrays_of,
    check_parts,
    check_seal,
    differing_arrays,
    seal,
)
from upsilon_jax.workdir.whole import system_error

# Orbax keeps the number of the save under way in a class attribute. Two threads that
# start to save at the same time (two seeds) take each other's, and one waits for ever.
_starting = threading.Lock()

# What the system says of files that are damaged or gone; orbax itself has no number.
# All else is no fault of theirs: no answer of a network, too many open files.
_DAMAGED = {
    None,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EIO,
    errno.EINVAL,
}
# A person, or XLA and with it another process of the run: neither has read any file.
_OF_OTHERS = (KeyboardInterrupt, jax.errors.JaxRuntimeError)


class Checkpoint(NamedTuple):
    """What is kept: the arrays, and a JSON-able record (history and the like)."""

    number: int
    state: Any
    record: dict


def clear_unfinished(workdir: pathlib.Path) -> None:
    """Removes what a killed process had begun to save; only who has locked it may."""
    for path in (workdir / CHECKPOINTS).glob("*.orbax-checkpoint-tmp*"):
        shutil.rmtree(path, ignore_errors=True)


class Checkpoints:
    """The checkpoints of one workdir, newest `keep` of them."""

    def __init__(self, workdir: pathlib.Path, keep: int):
        self._workdir = workdir.absolute()
        self._folder = self._workdir / CHECKPOINTS
        self._newest: int | None = None
        with self._named_errors("cannot be used"):
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
        sealed = seal(number, state, record)
        with _starting, self._named_errors("cannot save"):
            # Where nothing can be written, orbax would wait for five minutes.
            tempfile.TemporaryFile(dir=self._folder).close()
            saved = self._manager.save(
                number,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(state), record=ocp.args.JsonSave(sealed)
                ),
            )
            if self._newest is not None:  # orbax has waited for that one
                mark_saved(self._workdir)
        if not saved:
            raise WorkdirError(f"{self._folder}: checkpoint {number} was not saved")
        self._newest = number

    def has_any(self) -> bool:
        """Whether something was saved, usable or not."""
        return bool(self._manager.all_steps())

    def restore(self, template: Any) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, or None if none was ever saved.

        Newer ones that are damaged are moved to `corrupt/`, so that the run can write
        these numbers again. If none is whole nothing is moved.

        Args:
          template: a state of the same structure, shapes, dtypes and shardings.

        Returns:
          The checkpoint, and one line for every one that had to be passed over.

        Raises:
          WorkdirError: there is none to go on from, or it is of another network.
        """
        damaged: dict[int, str] = {}
        for number in sorted(self._manager.all_steps(), reverse=True):
            try:
                checkpoint = self._read(number, template)
            except Damaged as why:
                damaged[number] = f"checkpoint {number} cannot be used: {why}"
                continue
            self._set_aside(list(damaged))
            self._newest = number
            return checkpoint, list(damaged.values())
        if damaged:
            told = "; ".join(damaged.values())
            raise WorkdirError(
                f"{self._folder}: no checkpoint can be used. {told}. {START_OVER}"
            )
        if has_saved(self._workdir):
            raise WorkdirError(
                f"{self._workdir} has saved checkpoints, and none of them is in "
                f"{CHECKPOINTS}/ any more. {START_OVER}"
            )
        return None, []

    def _read(self, number: int, template: Any) -> Checkpoint:
        sealed = self._restore(number, record=ocp.args.JsonRestore())["record"]
        body = check_seal(number, sealed)
        differing = differing_arrays(body["arrays"], arrays_of(template))
        if differing:
            raise WorkdirError(
                f"{self._workdir} holds a run with other arrays: {differing}; give "
                "another --workdir"
            )
        args = ocp.args.StandardRestore(template)
        state = self._restore(number, state=args)["state"]
        parts = state._asdict() if hasattr(state, "_asdict") else state
        check_parts(parts, body["digests"])
        return Checkpoint(number, state, body["record"])

    def _restore(self, number: int, **items: Any) -> Any:
        with _read_errors(self._folder / str(number)):
            return self._manager.restore(number, args=ocp.args.Composite(**items))

    def _set_aside(self, numbers: list[int]) -> None:
        """Of several processes the first moves them; the others wait for it."""
        if numbers and jax.process_index() == 0:
            with self._named_errors("cannot set a damaged checkpoint aside"):
                for number in numbers:
                    (self._workdir / DAMAGED).mkdir(exist_ok=True)
                    target = unused(self._workdir / DAMAGED / str(number))
                    shutil.move(self._folder / str(number), target)
        if numbers:
            ocp.multihost.sync_global_processes("damaged checkpoints are set aside")
            self._manager.reload()

    def close(self) -> None:
        """Waits until everything is on disk."""
        with self._named_errors("cannot save"):
            self._manager.wait_until_finished()
            self._manager.close()
            if checkpoint_numbers(self._workdir):  # the first may have failed
                mark_saved(self._workdir)

    @contextlib.contextmanager
    def _named_errors(self, what: str) -> Iterator[None]:
        """What the system refused is the user's line; all else is a fault of ours."""
        try:
            yield
        except (OSError, ValueError) as error:
            _, reason = system_error(error)
            if not reason:
                raise
            raise WorkdirError(f"{self._folder}: {what} ({reason})") from error


@contextlib.contextmanager
def _read_errors(path: pathlib.Path) -> Iterator[None]:
    """Turns what orbax raises for damaged files into Damaged.

    That is KeyError, ValueError, OSError, JSONDecodeError or a bare Exception,
    depending on which of its files is damaged. Where memory runs out, say, a sound one
    cannot be read either, and must not be taken for damaged.
    """
    try:
        yield
    except Exception as error:
        for cause in _causes(error):
            code, reason = system_error(cause)
            if code not in _DAMAGED:
                raise WorkdirError(f"{path}: cannot be read ({reason})") from error
            if isinstance(cause, _OF_OTHERS):
                raise cause from None
            if memory.exhausted(cause):
                raise MemoryError(str(cause)) from error
        told = [f"{type(error).__name__}:", *str(error).splitlines()[:1]]
        raise Damaged(" ".join(told)) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those it was raised from: orbax puts some into a bare Exception."""
    while error is not None:
        yield error
        error = error.__cause__


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
    complaints: list[str] = []
    for number in sorted(checkpoint_numbers(workdir), reverse=True):
        try:
            return _read_part(workdir.absolute(), number, part, like), complaints
        except Damaged as why:
            complaints.append(f"checkpoint {number} cannot be used: {why}")
    reason = "; ".join(complaints) or "none was saved"
    raise WorkdirError(f"{workdir}: there is no checkpoint to use: {reason}")


def _read_part(workdir: pathlib.Path, number: int, part: str, like: Any) -> Any:
    item, folder = {part: like}, workdir / CHECKPOINTS / str(number)
    state = ocp.args.PyTreeRestore(
        item=item,
        restore_args=ocp.checkpoint_utils.construct_restore_args(item),
        partial_restore=True,
    )
    both = ocp.args.Composite(state=state, record=ocp.args.JsonRestore())
    with (
        _read_errors(folder),
        ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer,
    ):
        restored = checkpointer.restore(folder, args=both)
        found, sealed = restored["state"][part], restored["record"]
    check_parts({part: found}, check_seal(number, sealed)["digests"])
    return found
