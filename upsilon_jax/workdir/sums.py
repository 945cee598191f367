"""Checksums of the files of a run, in the form that `sha256sum -c SHA256SUMS` reads.

A flipped bit may leave valid JSON with another number in it: only a checksum tells.
Who writes a file that is listed calls `forget_sums` first and `write_sums` when all is
done, so that a process that is killed in between leaves no list instead of a wrong one.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Iterable, Mapping

from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.whole import remove, written_whole

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


def forget_sums(workdir: pathlib.Path) -> None:
    """Removes the list."""
    remove(workdir / SUMS)


def write_sums(
    workdir: pathlib.Path, names: Iterable[str], to_come: Mapping[str, bytes] = {}
) -> None:
    """Lists the files of these names that are there.

    Args:
      workdir: of the run.
      names: of files in it.
      to_come: name -> contents of files that will be written next.
    """
    found = {name: workdir / name for name in names if name not in to_come}
    sums = {n: _sum(path.read_bytes()) for n, path in found.items() if path.exists()}
    sums |= {name: _sum(data) for name, data in to_come.items()}
    with written_whole(workdir / SUMS) as partial:
        partial.write_text("".join(f"{sums[n]}  {n}\n" for n in sorted(sums)), "utf-8")


def is_sound(path: pathlib.Path) -> bool:
    """Whether a file is there, and is the one that is listed beside it, if it is."""
    return path.exists() and _listed(path) in (None, _sum(path.read_bytes()))


def check_sum(path: pathlib.Path, data: bytes) -> None:
    """Raises a WorkdirError if the file is listed beside it with another checksum."""
    if _listed(path) not in (None, _sum(data)):
        raise WorkdirError(
            f"{path}: is damaged: {SUMS} beside it has another checksum; restore it "
            f"from a copy, or remove {SUMS} if it was changed on purpose"
        )


def _listed(path: pathlib.Path) -> str | None:
    try:
        lines = path.with_name(SUMS).read_text("utf-8", "replace").splitlines()
    except OSError:  # none, or no file
        return None
    found = [match for line in lines if (match := _LINE.fullmatch(line))]
    return next((match[1] for match in found if match[2] == path.name), None)


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
