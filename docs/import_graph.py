"""Draws who imports whom:  python docs/import_graph.py > docs/architecture.svg.

The picture is made from the source files: a box is a folder or module of the package
and says the first line of its docstring. An arrow leads to what it imports; those that
a chain of others implies are left out. `tests/test_layering.py` holds the package to
the same layers, and the stored picture to the imports.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from html import escape

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "upsilon_jax"

# Lowest first. Each layer imports only lower ones; parts of one layer do not meet.
LAYERS = (
    ("types", "errors"),
    ("runtime",),
    ("native",),
    ("kernels", "data"),
    ("models", "methods"),
    ("config",),
    ("workdir",),
    ("report",),
    ("inference",),
    ("training",),
    ("commandline",),
    ("sweep",),
    ("paper", "command"),
    ("__init__", "__main__"),
)

# Where a box is from left (0) to right (2), so that no arrow crosses another box.
_COLUMNS = {
    "__init__": 0,
    "paper": 1,
    "command": 2,
    "sweep": 1,
    "__main__": 2,
    "commandline": 1.35,
    "training": 0.25,
    "inference": 0,
    "report": 2,
    "workdir": 0.3,
    "config": 1.2,
    "models": 0,
    "methods": 1,
    "kernels": 1,
    "data": 2,
    "native": 0.5,
    "runtime": 0,
    "errors": 1,
    "types": 2,
}
_BOX, _COLUMN, _ROW, _MARGIN = (264, 52), 300, 86, 18
_INK, _LINE, _FILL, _BAND = "#1b2a3a", "#4a78a8", "#dfeaf5", "#f3f5f7"

Edges = Mapping[str, set[str]]  # part -> parts


def files() -> list[pathlib.Path]:
    """Every source file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: pathlib.Path) -> str:
    """The first part of a path in the package; every `__main__.py` is a command."""
    relative = path.relative_to(PACKAGE).with_suffix("")
    return "__main__" if relative.name == "__main__" else relative.parts[0]


def imports(path: pathlib.Path) -> set[str]:
    """Dotted names that a file imports, those under `if TYPE_CHECKING` left out."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {
        id(inner)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for inner in ast.walk(block)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{path}: relative import")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_imports(path: pathlib.Path) -> set[str]:
    """The other parts of the package that a file imports."""
    names = (name.split(".") for name in imports(path))
    parts = {name[1] for name in names if name[0] == "upsilon_jax" and name[1:]}
    return parts - {part_of(path)}


def import_graph() -> Edges:
    """Who imports whom."""
    graph = {part: set() for layer in LAYERS for part in layer}
    for path in files():
        graph[part_of(path)] |= own_imports(path)
    return graph


def reduced(graph: Edges) -> Edges:
    """The graph without edges that a longer path implies."""

    def below(part: str) -> set[str]:
        return graph[part].union(*(below(other) for other in graph[part]))

    return {
        part: others - set().union(*(below(other) for other in others))
        for part, others in graph.items()
    }


def picture(graph: Edges) -> str:
    """The graph as SVG, the same text for the same imports."""
    width = 2 * _COLUMN + _BOX[0] + 2 * _MARGIN
    height = len(LAYERS) * _ROW + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" fill="{_INK}">',
        "<title>Layers of upsilon_jax: an arrow leads to what is imported</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" '
        f'fill="{_LINE}"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(_band(number, width) for number in range(len(LAYERS))),
        *_arrows(graph),
        *(_box(part) for layer in LAYERS for part in layer),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _place(part: str) -> tuple[float, float]:
    """Left upper corner of a box."""
    number = next(i for i, layer in enumerate(LAYERS) if part in layer)
    top = (len(LAYERS) - 1 - number) * _ROW + _MARGIN + (_ROW - _BOX[1] - _MARGIN) / 2
    return _MARGIN + _COLUMNS.get(part, 1) * _COLUMN, top


def _band(number: int, width: int) -> str:
    """The background of a layer."""
    top = _place(LAYERS[number][0])[1] - 8
    return (
        f'<rect x="6" y="{top:g}" width="{width - 12}" height="{_BOX[1] + 16}" rx="6" '
        f'fill="{_BAND}"/>'
    )


def _arrows(graph: Edges) -> Iterator[str]:
    """Curves from the lower edge of a box to the upper edge of what it imports."""
    across = lambda part: (_place(part)[0], part)
    sources = {
        part: sorted((p for p in graph if part in graph[p]), key=across)
        for part in graph
    }
    for part, others in graph.items():
        targets = sorted(others, key=across)
        for other in targets:
            x0, y0 = _port(part, targets.index(other), len(targets))
            x1, y1 = _port(other, sources[other].index(part), len(sources[other]))
            y0, bend = y0 + _BOX[1], (y1 - y0 - _BOX[1]) / 2
            yield (
                f'<path d="M{x0:g} {y0:g}C{x0:g} {y0 + bend:g} {x1:g} {y1 - bend:g} '
                f'{x1:g} {y1:g}" fill="none" stroke="{_LINE}" stroke-width="1.6" '
                'marker-end="url(#head)"/>'
            )


def _port(part: str, number: int, count: int) -> tuple[float, float]:
    """Where the n-th of some arrows meets a box, on its upper edge."""
    x, y = _place(part)
    return x + _BOX[0] * (number + 1) / (count + 1), y


def _box(part: str) -> str:
    """A part, with its name and what it is for."""
    x, y = _place(part)
    name, purpose = _described(part)
    lines = textwrap.wrap(purpose, 46)[:2]
    texts = [
        f'<text x="{x + 10:g}" y="{y + 31 + 13 * i:g}" font-size="10.5">'
        f"{escape(line)}</text>"
        for i, line in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<rect x="{x:g}" y="{y:g}" width="{_BOX[0]}" height="{_BOX[1]}" rx="5" '
            f'fill="{_FILL}" stroke="{_LINE}"/>',
            f'<text x="{x + 10:g}" y="{y + 16:g}" font-size="13" font-weight="bold">'
            f"{escape(name)}</text>",
            *texts,
        ]
    )


def _described(part: str) -> tuple[str, str]:
    """The name in a box, and a line on what the part is for."""
    if part == "__main__":
        folders = sorted(path.parent.name for path in PACKAGE.glob("*/__main__.py"))
        return "python -m upsilon_jax.FOLDER", f"Commands: {', '.join(folders)}."
    folder = PACKAGE / part
    file = folder / "__init__.py" if folder.is_dir() else PACKAGE / f"{part}.py"
    line = ast.get_docstring(ast.parse(file.read_text("utf-8"))).splitlines()[0]
    # What follows a colon may be a command, or a signature that is too long here.
    line = re.split(r":  |: `[^`]* -> ", line)[0].replace("`", "").rstrip(".") + "."
    if part == "__init__":
        return PACKAGE.name, line
    return f"{part}/" if folder.is_dir() else f"{part}.py", line


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(picture(reduced(import_graph())))
