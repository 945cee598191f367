"""What a workdir keeps of the past: whether it has ever saved, and what was set aside.

A run never begins at step 0 where an earlier one has saved, unless it is told to.
"""

from __future__ import annotations

import pathlib
import re

from upsilon_jax.errors import WorkdirError

CHECKPOINTS = "checkpoints"
DAMAGED = "corrupt"  # gets checkpoints that cannot be used
_MARK = ".saved"  # is there as soon as a checkpoint is whole, and stays
_EARLIER = "earlier"  # gets what --start_over sets aside; the next one, earlier_2
_IS_EARLIER = re.compile(rf"{_EARLIER}(_\d+)?")

START_OVER = (
    "Restore them from a copy, or begin at step 0 with --start_over, which sets aside "
    "what is there"
)


def checkpoint_numbers(workdir: pathlib.Path) -> list[int]:
    """Of all that are there, usable or not."""
    names = (path.name for path in (workdir / CHECKPOINTS).glob("*"))
    return [int(name) for name in names if name.isdecimal()]


def has_saved(workdir: pathlib.Path) -> bool:
    """Whether a run in this folder has ever saved, even if all of it is lost."""
    lost = (workdir / _MARK).exists() or any((workdir / DAMAGED).glob("*"))
    return lost or bool(checkpoint_numbers(workdir))


def mark_saved(workdir: pathlib.Path) -> None:
    """Remembers that a checkpoint is whole."""
    (workdir / _MARK).touch()


def set_run_aside(workdir: pathlib.Path) -> pathlib.Path | None:
    """Moves all that a run has left into a folder of its own; nothing is deleted.

    The mark goes last: cut off on the way, the workdir still counts as one that has
    saved.

    Returns:
      That folder; None if there was nothing to move.
    """
    kept = lambda path: path.name == ".lock" or _IS_EARLIER.fullmatch(path.name)
    found = [path for path in workdir.iterdir() if not kept(path)]
    if not found:
        return None
    target = unused(workdir / _EARLIER)
    try:
        target.mkdir()
        for path in sorted(found, key=lambda path: (path.name == _MARK, path.name)):
            path.rename(target / path.name)
    except OSError as error:
        raise WorkdirError(
            f"{workdir}: cannot set aside what is there ({error.strerror or error})"
        ) from error
    return target


def files_below(folder: pathlib.Path, pattern: str) -> list[pathlib.Path]:
    """Files at any depth, in order, but for those of runs that were set aside there."""
    return [
        path
        for path in sorted(folder.rglob(pattern))
        if not any(map(_IS_EARLIER.fullmatch, path.relative_to(folder).parts[:-1]))
    ]


def unused(path: pathlib.Path) -> pathlib.Path:
    """The path, or with a number behind it if there is something already."""
    count, free = 1, path
    while free.exists():
        count += 1
        free = path.with_name(f"{path.name}_{count}")
    return free
