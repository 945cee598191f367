"""The JSON and text files of a workdir."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import pathlib
import platform
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from upsilon_jax.config import (
    MAY_CHANGE,
    differences,
    flatten,
    may_change,
    usual_fields,
)
from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.records import plain, read, read_json
from upsilon_jax.workdir.saved import has_saved
from upsilon_jax.workdir.schema import Result
from upsilon_jax.workdir.whole import written_whole

CONFIG, MANIFEST, RESULT = "config.json", "manifest.json", "result.json"
CURVES, SKIPPED = "curves.png", "skipped.txt"
FINDINGS = "findings.npz"
UNLABELED, LABEL_NEXT = "unlabeled.csv", "label_next.csv"
REPORT = "report.html"
PHOTOS = "photos.json.gz"  # digest of every photo by path, to name those that changed
SHOWN = (CURVES, REPORT, UNLABELED, LABEL_NEXT)  # made of the others, for people
LISTED = (CONFIG, MANIFEST, PHOTOS, FINDINGS, *SHOWN, RESULT)  # with a checksum

_LOST = (
    "restore it from a copy, give another --workdir, or --start_over, which sets the "
    "old run aside"
)
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "pillow")


def find_result(
    workdir: pathlib.Path,
    config: Mapping[str, Any],
    *,
    override: bool,
    left_open: Collection[str] = (),
) -> Result | None:
    """The result of this config if the workdir has it already.

    Args:
      workdir: where to look.
      config: of the run that is asked for.
      override: whether the folder may belong to another config; if it has saved, to
        one that differs in fields that may change (`config/changes.py: may_change`).
      left_open: fields that are not compared, as the data will choose their values.

    Raises:
      WorkdirError: the folder belongs to another config, and `override` is false or
        does not cover it. The message lists the fields that differ.
    """
    stored = _stored_config(workdir)
    if stored is None:
        return None
    changed = _changes(stored, config, left_open)
    if changed:
        _check_override(workdir, stored, config, changed, override)
    if changed or not (workdir / RESULT).exists():
        return None
    result = read(Result, workdir / RESULT)
    # One of an earlier config stays until the run that goes on with another has ended.
    return None if _changes(result.config, config, left_open) else result


def _changes(
    stored: Mapping[str, Any], config: Mapping[str, Any], left_open: Collection[str]
) -> dict[str, str]:
    """Field → a line, where a config differs from a stored one.

    A field that was added since is at its default there.
    """
    stored, config = flatten(stored), flatten(config)
    usual = usual_fields(config.get("method.name", ""))
    added = {k: v for k, v in usual.items() if k in config and k not in stored}
    return differences({**stored, **added}, config, left_open)


def _check_override(
    workdir: pathlib.Path,
    stored: Mapping[str, Any],
    config: Mapping[str, Any],
    changed: Mapping[str, str],
    override: bool,
) -> None:
    """Raises a WorkdirError if a run may not go on with these changes."""
    old, new = flatten(stored), flatten(config)
    fixed = [
        line
        for field, line in changed.items()
        if field in old.keys() & new.keys()  # of one version
        and not may_change(field, old[field], new[field])
    ]
    if has_saved(workdir) and fixed:
        raise WorkdirError(
            f"{workdir} holds a run of another config ({'; '.join(fixed)}), which "
            f"cannot go on with that (--override_config may change {MAY_CHANGE}); give "
            "another --workdir, or --start_over, which sets the old run aside"
        )
    if not override:
        raise WorkdirError(
            f"{workdir} holds a run of another config ({'; '.join(changed.values())}); "
            "give another --workdir, or --override_config to go on with the new values"
        )


def _stored_config(workdir: pathlib.Path) -> Mapping[str, Any] | None:
    """The config of the run in a workdir; None if there is no run."""
    path = workdir / CONFIG
    if path.exists() or path.is_symlink():
        stored = read_json(path, checked=True)
        sections = stored if isinstance(stored, Mapping) else {}
        if not all(isinstance(sections.get(k), Mapping) for k in ("data", "train")):
            raise WorkdirError(f"{path}: is no config of a run; {_LOST}")
        return stored
    if (workdir / RESULT).exists():
        return read(Result, workdir / RESULT).config
    if has_saved(workdir):
        raise WorkdirError(f"{path}: is missing, but there are checkpoints; {_LOST}")
    return None


def write_skipped(path: pathlib.Path, skipped: Sequence[tuple[str, str]]) -> list[str]:
    """Lists the files that were left out, one a line; returns what to tell the user."""
    if not skipped:
        return []
    text = "".join(f"{file}\t{why}\n" for file, why in skipped)
    with written_whole(path) as partial:
        partial.write_text(text, "utf-8")
    return [f"files left out: {len(skipped):,}, listed with the reasons in {path}"]


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **found}


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes valid JSON (non-finite numbers are null), whole or not at all.

    A name that ends in .gz is compressed.
    """
    data = json_bytes(value)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    with written_whole(path) as partial:
        partial.write_bytes(data)


def json_bytes(value: Any) -> bytes:
    """What `write_json` writes."""
    text = json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False)
    # File names may have bytes that are no text: JSON has an escape for them.
    return (text + "\n").encode("utf-8", "backslashreplace")
