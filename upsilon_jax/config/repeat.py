"""The command that repeats a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from upsilon_jax.config.flat import flatten
from upsilon_jax.config.loading import config_names, load_config


def repeat_command(config: Mapping[str, Any], method: str | None = None) -> str:
    """Words for the shell that train the same config, a line for each field.

    It names the config file that differs least, and every field that differs; all
    fields where there is no such file. Fields with no value cannot be said on a command
    line, nor need they be: they are those that the file leaves open too.

    Args:
      config: complete, as a result has it.
      method: another method on the same data and with the same network; its own
        hyperparameters are then those of the config file.
    """
    name = config["method"]["name"]
    wanted = _fields(config)
    if method not in (None, name):
        wanted = {k: v for k, v in wanted.items() if not k.startswith("method.")}
        name = method
    candidates = [
        (file, _changes(wanted, known))
        for file in config_names()
        if (known := _fields_of(file, name)) is not None
    ]
    none = ("FILE.py", _changes(wanted, {}))
    file, changes = min([*candidates, none], key=lambda candidate: len(candidate[1]))
    fields = map(shlex.quote, _arguments(changes))
    return " \\\n    ".join([f"python main.py --config={file}:{name}", *fields])


def arguments_of(config: Mapping[str, Any], file: str) -> list[str]:
    """The arguments that make a config out of what a file has for its method."""
    known = _fields(load_config(file, config["method"]["name"]))
    return _arguments(_changes(_fields(config), known))


def _arguments(changes: Mapping[str, Any]) -> list[str]:
    return [f"--config.{field}={_told(value)}" for field, value in changes.items()]


def _fields_of(file: str, method: str) -> dict[str, Any] | None:
    """The fields of a config file for a method; None if it has none."""
    try:
        return _fields(load_config(file, method))
    except Exception:
        # It may be somebody's broken experiment, which is no reason to have no report.
        return None


def _fields(config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _plain(v) for k, v in flatten(config).items()}


def _changes(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field: value
        for field, value in wanted.items()
        if field != "method.name" and value is not None and value != known.get(field)
    }


def _told(value: Any) -> str:
    """A value as a flag takes it; tuples in double quotes, which need no escapes."""
    if isinstance(value, tuple):
        return f"({' '.join(f'{json.dumps(x, ensure_ascii=False)},' for x in value)})"
    return str(value)


def _plain(value: Any) -> Any:
    """JSON has lists where configs have tuples."""
    return tuple(value) if isinstance(value, list) else value
