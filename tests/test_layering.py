"""Who may import whom, and what `import upsilon_jax` may cost."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent / "upsilon_jax"

# Each layer imports only lower ones, and itself. Parts of one layer do not meet.
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
    ("__init__", "commandline", "sweep", "__main__"),
)
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
FORBIDDEN = {
    "data": {"jax", "flax", "optax"},
    "report": {"jax", "flax", "optax", "tensorflow"},
    "kernels": {"flax", "tensorflow", "ml_collections"},
    "methods": {"flax", "tensorflow", "ml_collections"},
    "types": {"flax", "optax", "tensorflow"},
}


def imports(path: pathlib.Path) -> set[str]:
    """Dotted names a file imports, those under `if TYPE_CHECKING` left out."""
    names = set()
    tree = ast.parse(path.read_text("utf-8"))
    typing_only = [n for n in ast.walk(tree) if isinstance(n, ast.If)]
    skipped = {
        id(inner)
        for block in typing_only
        if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for inner in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: pathlib.Path) -> str:
    """The first part of a path in the package; every `__main__.py` is a command."""
    relative = path.relative_to(PACKAGE).with_suffix("")
    return "__main__" if relative.name == "__main__" else relative.parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_layer_imports_only_lower_ones(path):
    part = part_of(path)
    for name in imports(path):
        top, _, rest = name.partition(".")
        assert top not in FORBIDDEN.get(part, set()), f"{path} imports {name}"
        if top == "upsilon_jax":
            other = rest.split(".")[0]
            lower = HEIGHT[other] < HEIGHT[part]
            commands = HEIGHT[part] == len(LAYERS) - 1
            assert lower or other == part or commands, f"{path} imports {name}"


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
