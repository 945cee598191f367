"""Prints docs/configuration.md from the fields:  python -m upsilon_jax.config."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from upsilon_jax.config.fields import FIELDS, WITHOUT_EFFECT, Field, rule_of
from upsilon_jax.config.flat import flatten
from upsilon_jax.config.loading import config_names, find_config
from upsilon_jax.config.presets import default_config, with_method
from upsilon_jax.config.rules import Rule
from upsilon_jax.config.schedule import steps_field
from upsilon_jax.methods import METHODS, SUFFIXES, Method

_INTRODUCTION = """\
# Configuration

`python -m upsilon_jax.config` makes this page from `upsilon_jax/config/fields.py` and
from the factories of the methods, where every field is stated once.

`--config=NAME:METHOD` picks a benchmark and a method, `--config.FIELD=VALUE` changes a
field, in any order. In Python it is `config = load_config("NAME", "METHOD")` (from
`upsilon_jax.config`) and `config.train.epochs = 10`. A value that breaks its rule, and
a field that does not exist, are refused with one line before anything starts.

Defaults are the paper's common setting, and a benchmark's file states what differs.
Durations are in epochs; an epoch is one pass over the unlabeled set D_u. A field with a
° never changes a number of the result.
"""
_METHODS = """\
## Methods

The fields `method.*` are the keywords of the method's factory; a benchmark may have
values of its own. A name ending in `_percent` (of all steps) or `_epochs` stands for
steps. [`methods.md`](methods.md) says what each method is.
"""
_SECTIONS = {
    "": "The run",
    "data": "Data",
    "model": "Network",
    "train": "Training",
}
# An argument of a docstring, up to the next one.
_ARGUMENT = re.compile(r"^  (\w+): (.*(?:\n    .*)*)", re.MULTILINE)


def reference() -> str:
    """The page, in Markdown."""
    parts = [_INTRODUCTION, _benchmarks()]
    parts += [_section(name, title) for name, title in _SECTIONS.items()]
    parts.append(_METHODS)
    for factory, names in _by_factory().items():
        parts.append(_method(factory, names))
    parts.append(_composed())
    return "\n".join(parts)


def _benchmarks() -> str:
    lines = ["## Benchmarks", "", "| name | what it is |", "|---|---|"]
    for name in config_names():
        doc = ast.get_docstring(ast.parse(find_config(name).read_text("utf-8"))) or name
        lines.append(f"| `{name}` | {_cell(doc.splitlines()[0])} |")
    return "\n".join([*lines, ""])


def _section(section: str, title: str) -> str:
    fields = {n: f for n, f in FIELDS.items() if n.rpartition(".")[0] == section}
    rows = ((_marked(name), field) for name, field in fields.items())
    return f"## {title}\n\n{_table(rows)}"


def _marked(name: str) -> str:
    return f"`{name}`" + (" °" if name in WITHOUT_EFFECT else "")


def _by_factory() -> Mapping[Callable[..., Method], list[str]]:
    """The methods that each function makes."""
    found: dict[Callable[..., Method], list[str]] = {}
    for name, factory in METHODS.items():
        found.setdefault(_unbound(factory), []).append(name)
    return found


def _unbound(factory: Callable[..., Method]) -> Callable[..., Method]:
    return factory.func if isinstance(factory, partial) else factory


def _method(factory: Callable[..., Method], names: list[str]) -> str:
    """The fields of the methods of one factory, and what each of them pins."""
    main = factory.__name__ if factory.__name__ in names else names[0]
    lines = [f"### {', '.join(sorted(names, key=lambda name: name != main))}", ""]
    for name in names:
        pinned = getattr(METHODS[name], "keywords", {})
        if pinned:
            values = ", ".join(f"`{key}` {_value(v)}" for key, v in pinned.items())
            lines.append(f"- `{name}`: {values}")
    if lines[-1]:
        lines.append("")
    flat = flatten(with_method(default_config(), main))
    fields = {n: v for n, v in flat.items() if n.startswith("method.")}
    del fields["method.name"]
    if not fields:
        return "\n".join([*lines, "It has no fields.", ""])
    return "\n".join(lines) + "\n" + _method_table(fields, flat, factory)


def _composed() -> str:
    """The fields that RPL and SEC have around another method."""
    flat = flatten(with_method(default_config(), "fixmatch+upsilon"))
    fields = {n: v for n, v in flat.items() if n.startswith("method.upsilon.")}
    names = ", ".join(f"NAME+{suffix}" for suffix in SUFFIXES)
    text = "The fields of NAME itself, and those of what is put around it.\n"
    table = _method_table(fields, flat, _unbound(SUFFIXES["upsilon"]))
    return f"### {names}\n\n{text}\n{table}"


def _method_table(
    fields: Mapping[str, Any], flat: Mapping[str, Any], factory: Callable[..., Method]
) -> str:
    says = _arguments(factory)
    rows = []
    for name, value in fields.items():
        last = name.rpartition(".")[2]
        meaning = says.get(last) or says.get(steps_field(last), "")
        rows.append((f"`{name}`", Field(value, rule_of(name, flat), meaning)))
    return _table(rows)


def _arguments(factory: Callable[..., Method]) -> dict[str, str]:
    """What the docstring of a factory says of its arguments."""
    _, _, arguments = (inspect.getdoc(factory) or "").partition("\nArgs:\n")
    found = _ARGUMENT.findall(arguments)
    return {name: " ".join(text.split()) for name, text in found}


def _table(rows: Iterable[tuple[str, Field]]) -> str:
    lines = ["| field | default | allowed | meaning |", "|---|---|---|---|"]
    for name, field in rows:
        cells = (name, _value(field.default), _allowed(field), _cell(field.says))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _value(value: Any) -> str:
    return "" if value in ("", ("",)) else f"`{value!r}`"


def _allowed(field: Field) -> str:
    if isinstance(field.rule, Rule):
        return _cell(field.rule.allowed())
    kind = field.kind or type(field.default)
    return {bool: "`True` or `False`", str: "text", tuple: "names"}.get(kind, "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
