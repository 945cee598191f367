"""From the records of `schema.py` to JSON and back.

`read` and `parse` refuse what is not such a record; `plain` is the inverse of `parse`.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import pathlib
import types
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from upsilon_jax.config import FIELDS
from upsilon_jax.errors import WorkdirError, shown
from upsilon_jax.workdir.schema import FORMAT, GROUPS, Entry, Result
from upsilon_jax.workdir.sums import check_sum

Record = TypeVar("Record", bound=tuple)

_DEEPEST = 100  # levels of a JSON file; no config or record has ten
_hints = functools.cache(get_type_hints)  # which takes longer than all else in reading


def read(kind: type[Record], path: pathlib.Path) -> Record:
    """The record in a JSON file; a WorkdirError says in one line why it is none.

    Or that it is not the one that was written, where a checksum beside it tells.
    """
    return parse(kind, read_json(path, checked=True), str(path))


def read_json(path: pathlib.Path, *, checked: bool = False) -> Any:
    """What is in a JSON file; a WorkdirError says in one line why it cannot be read.

    A name that ends in .gz is uncompressed. With `checked` a listed checksum counts.
    """
    try:
        data = path.read_bytes()
        if checked:
            check_sum(path, data)
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        value = json.loads(data)
        if _is_deep(value):
            raise RecursionError
        return value
    except FileNotFoundError:
        raise WorkdirError(f"{path}: there is no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise WorkdirError(f"{path}: cannot be read ({error})") from error
    except RecursionError:
        raise WorkdirError(f"{path}: is no valid JSON (nested too deep)") from None
    except ValueError as error:  # also of UTF-8, and of numbers with too many digits
        raise WorkdirError(f"{path}: is no valid JSON ({error})") from error


def _is_deep(value: Any) -> bool:
    """Whether what was read from JSON would end functions that call themselves.

    From Python 3.12 on `json` itself reads far deeper than these may go.
    """
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            one
            for whole in level
            if isinstance(whole, dict | list)
            for one in (whole.values() if isinstance(whole, dict) else whole)
        ]
    return bool(level)


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
            + ("" if found is None else f" but of {shown(found)}")
            + "; it was written by another version, or is something else"
        )
    try:
        record = _record(kind, value)
        if isinstance(record, Result):
            _check_config(record.config)
            _check_counts(record)
        return record
    except _Misfit as misfit:
        raise WorkdirError(f"{origin}: is no {name}: {misfit}") from None


def parse_history(value: Any, origin: str) -> list[Entry]:
    """The entries in what a checkpoint keeps of a history; refuses as `parse` does."""
    try:
        return _typed(list[Entry], value, "history")
    except _Misfit as misfit:
        raise WorkdirError(f"{origin}: has no history: {misfit}") from None


def read_photos(path: pathlib.Path) -> dict[str, str]:
    """Path -> digest of every photo a run began with; refuses as `read` does."""
    try:
        return _typed(dict[str, str], read_json(path, checked=True), "photos")
    except _Misfit as misfit:
        raise WorkdirError(f"{path}: does not list photos: {misfit}") from None


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
    if type(record) not in GROUPS:
        return fields
    for group in ("metrics", *GROUPS[type(record)]):
        fields |= fields.pop(group) or {}
    return {key: value for key, value in fields.items() if value is not None}


class _Misfit(Exception):
    """A value that is not of the type its field has."""


def _record(kind: Any, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _Misfit(f"{kind.__name__} must be an object")
    value = _grouped(kind, value)
    hints = _hints(kind)
    unknown = sorted(set(value) - set(hints))
    missing = [k for k in hints if k not in value and k not in kind._field_defaults]
    if unknown or missing:
        name, what = (missing[0], "missing") if missing else (unknown[0], "unknown")
        raise _Misfit(f"{kind.__name__}: {shown(name)} is {what}")
    return kind(**{k: _typed(hints[k], v, k) for k, v in value.items()})


def _grouped(kind: Any, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Undoes `_flat`: what is no field of an entry or its groups is a metric."""
    if kind not in GROUPS:
        return value
    rest: dict[str, Any] = dict(value)
    own: dict[str, Any] = {}
    groups: Mapping[str, Any] = GROUPS[kind]
    for group, record in groups.items():
        fields = {k: rest.pop(k) for k in record._fields if k in rest}
        own |= {group: fields} if fields else {}
    own |= {k: rest.pop(k) for k in kind._fields if k in rest}
    return {**own, "metrics": rest}


def _typed(hint: Any, value: Any, field: str) -> Any:
    """`value` as the type of a field, nested records parsed."""
    if type(value) is hint and _is_sound(value):  # the most of a file
        return value
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
    if hint is Any or (hint is float and type(value) is int and _is_sound(value)):
        return value
    expected = getattr(hint, "__name__", hint)
    raise _Misfit(f"{field!r} must be {expected}, got {shown(value)}")


def _is_sound(value: Any) -> bool:
    """No number, or a finite one that numpy has: 1e999 and NaN are read from files."""
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is not int or -(2**63) <= value < 2**63


# What every reader of a result asks of its config; an older one may lack other fields.
_NEEDED = {"data.name", "method.name", "train.report_epochs"}
_SECTIONS = {"method", "method.upsilon"}
_SECTIONS |= {name.rpartition(".")[0] for name in FIELDS if "." in name}
_THRESHOLDS = ("method.threshold", "method.upsilon.threshold")
_KINDS: Mapping[str, Any] = {
    "method.name": str,
    **dict.fromkeys(_THRESHOLDS, (int, float)),
    **{name: field.type for name, field in FIELDS.items()},
}
_PLAIN = (bool, int, float, str, type(None))


def _check_config(config: Mapping[str, Any]) -> None:
    """Refuses what readers of results could not show, compare or count.

    Only types are looked at: what once was allowed is still worth reading.
    """
    missing = set(_NEEDED)
    for name, value in _fields(config):
        items = value if isinstance(value, list | tuple) else [value]
        fits = value is None or isinstance(value, _KINDS.get(name, object))
        if not fits or not all(isinstance(i, _PLAIN) and _is_sound(i) for i in items):
            raise _Misfit(f"{shown(name)} of 'config' cannot be {shown(value)}")
        missing -= set() if value is None else {name}
    if missing:
        raise _Misfit(f"{min(missing)!r} of 'config' is missing")


def _fields(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What `flatten` gives of a config; a section that is none is refused."""
    for key, value in section.items():
        name = prefix + key
        if name in _SECTIONS and isinstance(value, Mapping) and value:
            yield from _fields(value, f"{name}.")
        elif name in _SECTIONS or "." in key:
            raise _Misfit(f"{shown(name)} of 'config' cannot be {shown(value)}")
        else:
            yield name, value


def _check_counts(result: Result) -> None:
    """Refuses tables that are not [classes, ID classes]."""
    for field in ("confusion", "unlabeled_confusion"):
        rows = getattr(result, field)
        if rows is None:
            continue
        columns = {len(row) for row in rows}
        fits = len(columns) == 1 and 0 < max(columns) <= len(rows)
        if not fits or len(rows) != len(result.classes):
            raise _Misfit(f"{field!r} must have a row for each of 'classes'")
