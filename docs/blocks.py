"""Fills the blocks of Markdown files that a command makes:  python docs/blocks.py.

A block stands between two comments: the command, and `<!-- end -->`. So every number in
it comes from the runs under `results/`, and a test makes it again.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import pathlib
import re
import shlex
from unittest import mock

from upsilon_jax import commandline
from upsilon_jax.report import results

ROOT = pathlib.Path(__file__).parent.parent
FILES = (
    "README.md",
    "docs/reproduction.md",
    "docs/foreign_share.md",
    "docs/plug_in.md",
    "docs/unequal_clusters.md",
    "results/desk/search.md",
)
_BLOCK = re.compile(
    r"(?P<head><!-- python -m (?P<command>[^\n]+?) -->\n)"
    r"(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def filled(text: str) -> str:
    """The text of a file with its blocks made anew; a result is read once for all."""
    made = lambda block: (
        f"{block['head']}\n{output(block['command'])}\n\n{block['end']}"
    )
    with mock.patch.object(results, "read", functools.cache(results.read)):
        return _BLOCK.sub(made, text)


def output(command: str) -> str:
    """What a command of ours prints, run from the root of the repository."""
    module, *argv = shlex.split(command)
    program = importlib.import_module(f"{module}.__main__")
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        program.main(commandline.parse(program.COMMAND, argv))
    return printed.getvalue().strip()


def split(text: str) -> tuple[str, str]:
    """What commands made of a text, and the rest."""
    made = "\n".join(block["body"] for block in _BLOCK.finditer(text))
    return made, _BLOCK.sub("", text)


if __name__ == "__main__":
    for name in FILES:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
