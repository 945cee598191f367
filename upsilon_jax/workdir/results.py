"""What a workdir holds as text: `config.json`, and `result.json` at the end."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import pathlib
import platform
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from upsilon_jax.config import differences
from upsilon_jax.errors import WorkdirError

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def find(
    workdir: pathlib.Path, config: Mapping[str, Any], *, override: bool
) -> dict | None:
    """The result of this config if the workdir has it already.

    Raises:
      WorkdirError: the folder belongs to another config, and `override` is false. The
        message lists the fields that differ.
    """
    stored = read(workdir / "config.json")
    changed = differences(stored, config) if stored else []
    if changed and not override:
        raise WorkdirError(
            f"{workdir} holds a run of another config ({'; '.join(changed)}); give "
            "another --workdir, or --override_config to go on with the new values"
        )
    return None if changed else read(workdir / "result.json")


def write_skipped(path: pathlib.Path, skipped: Sequence[tuple[str, str]]) -> list[str]:
    """Writes the files that were left out, one a line; returns lines to say of it."""
    if not skipped:
        return []
    path.write_text("".join(f"{file}\t{why}\n" for file, why in skipped), "utf-8")
    return [f"files left out: {len(skipped):,}, listed with the reasons in {path}"]


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **found}


def read(path: pathlib.Path) -> dict | None:
    """A JSON file, or None if it is not there."""
    if not path.exists():
        return None
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: pathlib.Path, value: Mapping[str, Any]) -> None:
    """Writes valid JSON (non-finite numbers are null), whole or not at all."""
    text = json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text + "\n", encoding="utf-8")
    os.replace(partial, path)


def summary(result: Mapping[str, Any], workdir: pathlib.Path) -> str:
    """A few lines for the person who started the run."""
    if "seeds" in result:
        return _summary_of_seeds(result, workdir)
    config, history = result["config"], result["history"]
    data, last = config["data"], history[-1] if history else {}
    percent = lambda value: "—" if value is None else f"{value:.2%}"
    epochs = min(config["train"]["report_epochs"], len(history))
    lines = [
        f"{config['method']['name']} on {data['name']}: {result['status']}"
        + (f" at step {result['diverged_step']}" if "diverged_step" in result else ""),
        f"  test accuracy      {percent(result['accuracy'])}  "
        f"(EMA model, ID classes, mean of the last {epochs} epochs)",
        f"  of the live model  {percent(result['accuracy_live'])}",
    ]
    if "num_selected" in last:
        lines.append(
            f"  pseudo-labels      {last['num_confident']} on ID classes "
            f"({last['per_class']} or more each), {last['num_explored']} on clusters"
        )
    if last.get("ood_share") is not None:
        lines.append(
            f"  OOD among the former {last['ood_share']:.1%}, "
            f"right on ID images {percent(last['pseudo_accuracy'])}"
        )
    lines += [
        f"  results            {workdir / 'result.json'}, {workdir / 'curves.png'}",
        "  start anew         with another --workdir, or delete this one",
    ]
    return "\n".join(lines)


def _summary_of_seeds(result: Mapping[str, Any], workdir: pathlib.Path) -> str:
    config = result["seeds"][0]["config"]
    lines = [f"{config['method']['name']} on {config['data']['name']}, test accuracy"]
    finished = []
    for one in result["seeds"]:
        if one["status"] == "finished":
            finished.append(one["accuracy"])
            lines.append(f"  seed {one['seed']:<6} {one['accuracy']:.2%}")
        else:
            lines.append(f"  seed {one['seed']:<6} diverged")
    if len(finished) > 1:
        spread = 100 * statistics.stdev(finished)
        lines.append(f"  mean ± std  {100 * result['accuracy']:.2f} ± {spread:.2f} %")
    return "\n".join([*lines, f"  results     {workdir}/seed_*/result.json"])


def of_seeds(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Results of several seeds as one: `seeds`, and means of those that finished."""
    finished = [result for result in found if result["status"] == "finished"]
    mean = lambda key: (
        statistics.mean(result[key] for result in finished) if finished else None
    )
    return {
        "status": "finished" if len(finished) == len(found) else "diverged",
        "accuracy": mean("accuracy"),
        "accuracy_live": mean("accuracy_live"),
        "seeds": list(found),
    }


def plain(value: Any) -> Any:
    """The same in lists, dicts and finite numbers, as JSON would give it back."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
