"""The JSON and text files of a workdir."""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from upsilon_jax.config import differences
from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.schema import Result, plain, read
from upsilon_jax.workdir.whole import written_whole

CONFIG, MANIFEST, RESULT = "config.json", "manifest.json", "result.json"
CURVES, SKIPPED = "curves.png", "skipped.txt"
FINDINGS = "findings.npz"
UNLABELED, LABEL_NEXT = "unlabeled.csv", "label_next.csv"
REPORT = "report.html"

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "pillow")


def find_result(
    workdir: pathlib.Path, config: Mapping[str, Any], *, override: bool
) -> Result | None:
    """The result of this config if the workdir has it already.

    Raises:
      WorkdirError: the folder belongs to another config, and `override` is false. The
        message lists the fields that differ.
    """
    path = workdir / CONFIG
    stored = json.loads(path.read_text("utf-8")) if path.exists() else config
    changed = differences(stored, config)
    if changed and not override:
        raise WorkdirError(
            f"{workdir} holds a run of another config ({'; '.join(changed)}); give "
            "another --workdir, or --override_config to go on with the new values"
        )
    if changed or not (workdir / RESULT).exists():
        return None
    result = read(Result, workdir / RESULT)
    # One of an earlier config stays until the run that goes on with another has ended.
    return None if differences(result.config, config) else result


def write_skipped(path: pathlib.Path, skipped: Sequence[tuple[str, str]]) -> list[str]:
    """Lists the files that were left out, one a line; returns what to tell the user."""
    if not skipped:
        return []
    path.write_text("".join(f"{file}\t{why}\n" for file, why in skipped), "utf-8")
    return [f"files left out: {len(skipped):,}, listed with the reasons in {path}"]


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **found}


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes valid JSON (non-finite numbers are null), whole or not at all."""
    text = json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False)
    with written_whole(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")
