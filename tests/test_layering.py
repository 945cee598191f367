"""Who may import whom, and what `import upsilon_jax` may cost."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent / "upsilon_jax"

# First part of a path in the package -> parts of ours it may import, and packages that
# it must not. A part may always import itself.
ALLOWED = {
    "types": set(),
    "kernels": {"types"},
    "models": {"kernels", "types"},
    "methods": {"kernels", "types"},
    "data": {"types"},
    "report": set(),
    "compilation": set(),
    "memory": set(),
    "sharding": set(),
    "interrupts": set(),
    "checkpoint": set(),
    "observer": {"types"},
    "commandline": {"checkpoint", "interrupts"},
    "config": {"data", "methods"},
    "results": {"checkpoint", "config"},
    "step": {"compilation", "kernels", "methods", "sharding", "types"},
    "evaluate": {"kernels", "sharding", "types"},
    "feed": {"data", "sharding", "step"},
    "passes": {"evaluate", "run", "sharding", "types"},
    "lockstep": {"compilation", "run", "sharding", "types"},
    "progress": {"checkpoint", "observer", "run", "types"},
    "epoch": {
        *("data", "feed", "interrupts", "lockstep", "progress", "run", "sharding"),
        *("step", "types"),
    },
    "run": {"config", "data", "feed", "methods", "models", "sharding", "step", "types"},
}
ENTRY_POINTS = {"__init__", "loop", "sweep", "data/__main__"}
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


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_table(path):
    relative = path.relative_to(PACKAGE).with_suffix("")
    if relative.as_posix() in ENTRY_POINTS:
        return
    part = relative.parts[0]
    for name in imports(path):
        top, _, rest = name.partition(".")
        assert top not in FORBIDDEN.get(part, set()), f"{path} imports {name}"
        if top == "upsilon_jax":
            other = rest.split(".")[0]
            assert other in ALLOWED[part] | {part}, f"{path} imports {name}"


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
