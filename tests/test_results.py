"""What is said of results is what the committed runs say."""

import importlib.util
import pathlib
import re
import shutil

import pytest

from upsilon_jax import commandline
from upsilon_jax.paper import __main__ as paper

ROOT = pathlib.Path(__file__).parent.parent
_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")


def _blocks():
    spec = importlib.util.spec_from_file_location("blocks", ROOT / "docs/blocks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


blocks = _blocks()


@pytest.mark.parametrize("name", blocks.FILES)
def test_the_blocks_of_a_page_are_what_their_commands_print(name):
    text = (ROOT / name).read_text("utf-8")
    assert "<!-- python -m " in text
    assert blocks.filled(text) == text, "python docs/blocks.py makes them again"


def _section(text, title):
    """A chapter of the README, or the whole page."""
    return text if title is None else text.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("docs/reproduction.md", None),
        ("README.md", "Results"),
        ("results/desk/search.md", None),
    ],
)
def test_a_number_in_the_prose_stands_in_a_block_of_the_page(name, title):
    made, prose = blocks.split(_section((ROOT / name).read_text("utf-8"), title))
    prose = re.sub(r"```.*?```|`[^`]*`", "", prose, flags=re.DOTALL)
    known = set(_NUMBER.findall(made))
    assert set(_NUMBER.findall(prose)) <= known


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["desk", "digits"])
def test_tables_and_figures_are_made_again_without_a_difference(tmp_path, scale):
    committed = ROOT / "results" / scale
    shutil.copytree(committed / "runs", tmp_path / "runs")
    told = ["all", f"--scale={scale}", "--table_only", f"--workdir={tmp_path}"]
    assert paper.main(commandline.parse(paper.COMMAND, told)) == 0
    made = sorted(path for path in tmp_path.rglob("E*/*"))
    assert [p.relative_to(tmp_path) for p in made] == sorted(
        path.relative_to(committed) for path in committed.rglob("E*/*")
    )
    for path in made:
        same = committed / path.relative_to(tmp_path)
        if path.suffix == ".md":
            assert path.read_text("utf-8") == same.read_text("utf-8")
        elif path.suffix == ".svg" and _drawn_by(path) == _drawn_by(same):
            assert path.read_bytes() == same.read_bytes()


def _drawn_by(path):
    """The version of matplotlib, another of which draws other bytes."""
    return re.search(r"Matplotlib v[\d.]+", path.read_text("utf-8"))[0]
