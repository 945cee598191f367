"""What `result.json` and `manifest.json` hold: every field with its type and meaning.

No other file spells the names of these fields. `read` and `parse` refuse what is not
such a record; `plain` is the inverse of `parse`. `docs/result.md` is made from here:

    python -m upsilon_jax.workdir > docs/result.md
"""

from __future__ import annotations

import json
import math
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as _hints

from upsilon_jax.errors import WorkdirError

FORMAT = 2  # of both files; a file of another one is refused

FINISHED, DIVERGED = "finished", "diverged"

Record = TypeVar("Record", bound=tuple)


class Imbalance(NamedTuple):
    """How unevenly plain argmax labels fall on the classes (appendix C).

    Known only where the true classes of D_u are.
    """

    kl_id: Annotated[float | None, "KL of the labels of ID images from uniform"] = None
    ratio_id: Annotated[float | None, "their largest over their smallest count"] = None
    kl_ood: Annotated[float | None, "the same for OOD images"] = None
    ratio_ood: Annotated[float | None, "the same for OOD images"] = None


class Foreign(NamedTuple):
    """About how many images of D_u are of none of the classes (an estimate)."""

    share: Annotated[float, "estimated share, 0 to 1"]
    low: Annotated[float, "the true share is probably not below this"]
    high: Annotated[float, "nor above this"]
    threshold: Annotated[float, "ID confidence below which that share of D_u lies"]


class Labels(NamedTuple):
    """The pseudo-labels P at the end of an epoch."""

    num_selected: Annotated[int, "images of D_u in P"]
    num_confident: Annotated[int, "those with the label of an ID class"]
    per_class: Annotated[int, "the least count of an ID class, the paper's N"]
    num_explored: Annotated[int, "those with the label of a cluster, the paper's M"]
    ood_share: Annotated[float | None, "share of ID labels on OOD images"] = None
    pseudo_accuracy: Annotated[float | None, "of ID labels on ID images"] = None


class Entry(NamedTuple):
    """An epoch of `history`.

    In the file the fields of `metrics`, `labels` and `imbalance` are not nested, and
    those without a value are left out.
    """

    epoch: Annotated[int, "its number, from 1"]
    step: Annotated[int, "optimizer steps taken at its end"]
    metrics: Annotated[
        dict[str, float],
        "means over the steps of the epoch, as the method names them; `loss` always",
    ]
    accuracy: Annotated[float | None, "of the EMA model on ID test images"] = None
    accuracy_live: Annotated[float | None, "of the live model on them"] = None
    labels: Annotated[Labels | None, "of methods that have P"] = None
    imbalance: Annotated[Imbalance | None, "where D_u was predicted"] = None
    foreign_share: Annotated[
        float | None, "estimated share of foreign images in D_u, where it was predicted"
    ] = None
    train_seconds: Annotated[float, "in the train steps"] = 0.0
    refresh_seconds: Annotated[float, "in the refresh"] = 0.0
    evaluate_seconds: Annotated[float, "in the evaluation"] = 0.0
    epoch_seconds: Annotated[float, "since the last entry, with the checkpoint"] = 0.0


class Result(NamedTuple):
    """The contents of `result.json`."""

    format: Annotated[int, f"of this file: {FORMAT}"]
    status: Annotated[str, "`finished`, or `diverged` if the loss was not finite"]
    seed: Annotated[int, "of the split, the initial weights and all else"]
    config: Annotated[dict[str, Any], "every field, none left open"]
    classes: Annotated[list[str], "ID classes in the order of labels, then OOD classes"]
    accuracy: Annotated[
        float | None,
        "of the EMA model on test images of the ID classes, 0 to 1, mean of the last "
        "`train.report_epochs` epochs",
    ]
    accuracy_live: Annotated[float | None, "the same of the live model"]
    confusion: Annotated[
        list[list[int]] | None,
        "[classes, ID classes] counts of all test images: true by predicted class",
    ]
    auroc: Annotated[
        float | None, "how well ID confidence tells ID from OOD test images"
    ]
    imbalance: Annotated[Imbalance | None, "of the last EMA model on D_u"]
    diverged_step: Annotated[int | None, "the first step whose loss was not finite"]
    resumed_from: Annotated[list[int], "steps from which the run went on"]
    split_digest: Annotated[str, "sha256 of the split"]
    params_digest: Annotated[
        str, "sha256 of parameters, statistics, their averages and optimizer state"
    ]
    native: Annotated[bool, "whether C++ code ran; it rounds otherwise than XLA"]
    versions: Annotated[dict[str, str], "of what decides the numbers"]
    history: Annotated[list[Entry], "an entry for every epoch"]
    foreign: Annotated[
        Foreign | None, "how much of D_u the last EMA model takes for foreign"
    ] = None


class Seeds(NamedTuple):
    """What training several seeds returns; each has a `result.json` of its own."""

    status: Annotated[str, "`finished` if all of them are"]
    accuracy: Annotated[float | None, "mean over those that finished"]
    accuracy_live: Annotated[float | None, "the same of the live model"]
    seeds: Annotated[list[Result], "the result of each"]


class Manifest(NamedTuple):
    """The contents of `manifest.json`: what a checkpoint needs to be used anywhere."""

    format: Annotated[int, f"of this file: {FORMAT}"]
    classes: Annotated[list[str], "the ID classes in the order of labels"]
    ood_classes: Annotated[list[str], "the OOD classes, where they have names"]
    image_shape: Annotated[list[int], "height, width, channels"]
    mean: Annotated[list[float], "per channel, of images in 0 to 1"]
    std: Annotated[list[float], "per channel"]
    fit: Annotated[str, "how an image is brought to that shape"]
    model: Annotated[dict[str, Any], "the fields `model.*` of the config"]
    heads: Annotated[dict[str, Any], "the outputs of the network, by name"]
    method: Annotated[dict[str, Any], "the fields `method.*` of the config"]
    num_classes: Annotated[int, "C, the number of ID classes"]
    num_clusters: Annotated[int, "K, the further outputs of the head `logits`"]
    foreign_below: Annotated[
        float | None, "ID confidence below which an image counts as foreign; γ"
    ]
    native: Annotated[bool, "whether C++ code ran; it rounds otherwise than XLA"]
    versions: Annotated[dict[str, str], "of what decides the numbers"]
    split_digest: Annotated[str, "sha256 of the split"]
    data_digest: Annotated[dict[str, str], "sha256 of names and contents of the data"]


# Records that are not nested: their fields stand next to those of their holder.
_GROUPS = {Entry: {"labels": Labels, "imbalance": Imbalance}}


def read(kind: type[Record], path: pathlib.Path) -> Record:
    """The record in a JSON file; a WorkdirError says in one line why it is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WorkdirError(f"{path}: there is no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise WorkdirError(f"{path}: is no valid JSON ({error})") from error
    return parse(kind, value, str(path))


def parse(kind: type[Record], value: Any, origin: str) -> Record:
    """The record in a value that was read from JSON.

    Args:
      kind: `Result` or `Manifest`.
      value: what `json.loads` gave.
      origin: the file, for the message.

    Raises:
      WorkdirError: it is something else; one line says in which field.
    """
    name = kind.__name__.lower()
    found = value.get("format") if isinstance(value, Mapping) else None
    if found != FORMAT:
        raise WorkdirError(
            f"{origin}: is no {name} of format {FORMAT}"
            + ("" if found is None else f" but of {found!r}")
            + "; it was written by another version, or is something else"
        )
    try:
        return _record(kind, value)
    except _Misfit as misfit:
        raise WorkdirError(f"{origin}: is no {name}: {misfit}") from None


def parse_history(value: Any, origin: str) -> list[Entry]:
    """The entries in what a checkpoint keeps of a history; refuses as `parse` does."""
    try:
        return _typed(list[Entry], value, "history")
    except _Misfit as misfit:
        raise WorkdirError(f"{origin}: has no history: {misfit}") from None


def plain(value: Any) -> Any:
    """Records, and all that may be in them, as JSON would give it back."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _flat(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _flat(record: Any) -> dict[str, Any]:
    """The fields of a record; of an entry those of its groups, without None."""
    fields = {key: plain(value) for key, value in record._asdict().items()}
    if type(record) not in _GROUPS:
        return fields
    for group in ("metrics", *_GROUPS[type(record)]):
        fields |= fields.pop(group) or {}
    return {key: value for key, value in fields.items() if value is not None}


class _Misfit(Exception):
    """A value that is not of the type its field has."""


def _record(kind: type[Record], value: Any) -> Record:
    if not isinstance(value, Mapping):
        raise _Misfit(f"{kind.__name__} must be an object")
    value = _grouped(kind, value)
    hints = _hints(kind)
    unknown = sorted(set(value) - set(hints))
    missing = [k for k in hints if k not in value and k not in kind._field_defaults]
    if unknown or missing:
        what = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r} is unknown"
        raise _Misfit(f"{kind.__name__}: {what}")
    return kind(**{k: _typed(hints[k], v, k) for k, v in value.items()})


def _grouped(kind: type, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Undoes `_flat`: what is no field of an entry or its groups is a metric."""
    if kind not in _GROUPS:
        return value
    rest, own = dict(value), {}
    for group, record in _GROUPS[kind].items():
        fields = {k: rest.pop(k) for k in record._fields if k in rest}
        own |= {group: fields} if fields else {}
    own |= {k: rest.pop(k) for k in kind._fields if k in rest}
    return {**own, "metrics": rest}


def _typed(hint: Any, value: Any, field: str) -> Any:
    """`value` as the type of a field, nested records parsed."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        options = [option for option in args if option is not type(None)]
        return None if value is None else _typed(options[0], value, field)
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return _record(hint, value)
    if origin is list and isinstance(value, Sequence) and not isinstance(value, str):
        return [_typed(args[0], item, field) for item in value]
    if origin is dict and isinstance(value, Mapping):
        return {key: _typed(args[1], item, field) for key, item in value.items()}
    if hint is Any or (hint is float and type(value) in (int, float)):
        return value
    if type(value) is hint:
        return value
    raise _Misfit(f"{field!r} must be {getattr(hint, '__name__', hint)}, got {value!r}")
