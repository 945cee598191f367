"""What is said of results is what the committed runs say."""

import importlib.util
import pathlib
import re
import shutil

import pytest

from upsilon_jax import commandline
from upsilon_jax.paper import __main__ as paper
from upsilon_jax.report.figures import draw_figure
from upsilon_jax.report.results import read_runs

ROOT = pathlib.Path(__file__).parent.parent
_NUMBER = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.])")


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
        ("docs/plug_in.md", None),
        ("docs/unequal_clusters.md", None),
        ("README.md", "Results"),
        ("results/desk/search.md", None),
    ],
)
def test_a_number_in_the_prose_stands_in_a_block_of_the_page(name, title):
    made, prose = blocks.split(_section((ROOT / name).read_text("utf-8"), title))
    prose = re.sub(r"```.*?```|`[^`]*`", "", prose, flags=re.DOTALL)
    known = set(_NUMBER.findall(made))
    known |= {number.lstrip("+-") for number in known}
    assert set(_NUMBER.findall(prose)) <= known


@pytest.fixture(scope="module", params=["desk", "digits"])
def made(request, tmp_path_factory):
    """Files made again from the committed runs, and the committed ones."""
    committed = ROOT / "results" / request.param
    workdir = tmp_path_factory.mktemp(request.param)
    shutil.copytree(committed / "runs", workdir / "runs")
    told = ["all", f"--scale={request.param}", "--table_only", f"--workdir={workdir}"]
    assert paper.main(commandline.parse(paper.COMMAND, told)) == 0
    names = lambda folder: {path.relative_to(folder) for path in folder.rglob("E*/*")}
    assert names(workdir) == names(committed)
    return [(workdir / name, committed / name) for name in sorted(names(workdir))]


@pytest.mark.slow
def test_tables_are_made_again_without_a_difference(made):
    tables = [pair for pair in made if pair[0].suffix == ".md"]
    assert tables
    for new, old in tables:
        assert new.read_text("utf-8") == old.read_text("utf-8")


@pytest.mark.slow
def test_figures_are_made_again_without_a_difference(made):
    """Those in SVG; another version of matplotlib draws other bytes."""
    figures = [pair for pair in made if pair[0].suffix == ".svg"]
    assert figures
    for new, old in figures:
        if _drawn_by(new) != _drawn_by(old):
            pytest.skip(f"{_drawn_by(new)} here, {old} is of {_drawn_by(old)}")
        assert new.read_bytes() == old.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("data", ["desk", "digits"])
def test_what_parts_add_is_drawn_again_without_a_difference(data, tmp_path):
    committed = ROOT / "results/plug_in" / data
    _, new = draw_figure("plug_in", read_runs(committed), tmp_path / "plug_in")
    old = committed / new.name
    if _drawn_by(new) != _drawn_by(old):
        pytest.skip(f"{_drawn_by(new)} here, {old} is of {_drawn_by(old)}")
    assert new.read_bytes() == old.read_bytes()


def _drawn_by(path):
    return re.search(r"Matplotlib v[\d.]+", path.read_text("utf-8"))[0]
