"""Who may import whom, its picture, and what `import upsilon_jax` may cost."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parent.parent / "docs"


def _load(path: pathlib.Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


graph = _load(DOCS / "import_graph.py")

HEIGHT = {part: height for height, layer in enumerate(graph.LAYERS) for part in layer}
FORBIDDEN = {
    "data": {"jax", "flax", "optax"},
    "report": {"jax", "flax", "optax", "tensorflow"},
    "kernels": {"flax", "tensorflow", "ml_collections"},
    "methods": {"flax", "tensorflow", "ml_collections"},
    "types": {"flax", "optax", "tensorflow"},
}


@pytest.mark.parametrize(
    "path", graph.files(), ids=lambda path: str(path.relative_to(graph.PACKAGE))
)
def test_a_layer_imports_only_lower_ones(path):
    part = graph.part_of(path)
    outside = {name.split(".")[0] for name in graph.imports(path)}
    assert not outside & FORBIDDEN.get(part, set())
    too_high = {p for p in graph.own_imports(path) if HEIGHT[p] >= HEIGHT[part]}
    assert not too_high


def test_the_picture_shows_the_imports():
    """If not: python docs/import_graph.py > docs/architecture.svg."""
    drawn = graph.picture(graph.reduced(graph.import_graph()))
    assert (DOCS / "architecture.svg").read_text("utf-8") == drawn


def test_the_picture_leaves_out_what_others_imply():
    edges = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"d"}}
    assert graph.reduced(edges) == {
        "a": {"b"},
        "b": {"c"},
        "c": {"d"},
        "d": set(),
        "e": {"d"},
    }


def test_importing_the_package_loads_no_training_library():
    code = (
        "import sys, upsilon_jax; "
        "heavy = {'flax', 'orbax', 'clu', 'tensorflow', 'tensorflow_datasets'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
