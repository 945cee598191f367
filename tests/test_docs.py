"""What the pages name exists, and the functions that they define do what they say."""

import ast
import functools
import pathlib
import re

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import balanced_accuracy_score

from upsilon_jax.config import FIELDS

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
# Files that a page asks its reader to write.
TO_BE_WRITTEN = {
    "data/bars.py",
    "configs/bars.py",
    "tests/data/test_bars.py",
    "upsilon_jax/methods/entropy_min.py",
}

_FILE = re.compile(r"(?<![\w/.:(-])([a-z_][\w/.]*\.(?:py|md|cc|h|svg))\b")
_SYMBOL = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
_MODULE = re.compile(r"python -m\s+((?:upsilon_jax|benchmarks)[\w.]*\w)")
_FIELD = re.compile(r"--config\.((?!method)[a-z][\w.]*\w)=")
_CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def find(name: str) -> pathlib.Path | None:
    """A file that is named from the root, from the package, or by its name alone."""
    for folder in (ROOT, ROOT / "upsilon_jax", DOCS):
        if (folder / name).exists():
            return folder / name
    if "/" in name:
        return None
    parts = ("upsilon_jax", "tests", "configs", "docs", "benchmarks")
    return next((p for part in parts for p in (ROOT / part).rglob(name)), None)


@functools.cache
def symbols(path: pathlib.Path) -> set[str]:
    """What a module defines, imports or lists in `__all__`, and `Class.member`."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        found |= _names(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{n}" for inner in node.body for n in _names(inner)}
    return found


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    found = {target.id for target in targets if isinstance(target, ast.Name)}
    listed = found == {"__all__"} and isinstance(node.value, ast.List)
    return found | set(ast.literal_eval(node.value) if listed else ())


def unresolved(page: pathlib.Path) -> list[str]:
    """What a page names that does not exist."""
    text = page.read_text("utf-8")
    files = set(_FILE.findall(text)) - TO_BE_WRITTEN
    missing = [name for name in files if "NAME" not in name and not find(name)]
    missing += [
        link for link in _LINK.findall(text) if not (page.parent / link).exists()
    ]
    for file, symbol in _SYMBOL.findall(text):
        if find(file) and symbol not in symbols(find(file)):
            missing.append(f"{file}: {symbol}")
    for module in set(_MODULE.findall(text)):
        path = ROOT.joinpath(*module.split("."))
        if not (path / "__main__.py").exists() and not path.with_suffix(".py").exists():
            missing.append(f"python -m {module}")
    missing += [f"--config.{f}" for f in _FIELD.findall(text) if f not in FIELDS]
    for block in _CODE.findall(text):
        missing += _unresolved_imports(block)
    return sorted(missing)


def _unresolved_imports(code: str) -> list[str]:
    missing = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("upsilon_jax"):
            path = ROOT.joinpath(*node.module.split("."))
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            for alias in node.names:
                inside = (path / alias.name).is_dir() or find(
                    f"{node.module.replace('.', '/')}/{alias.name}.py"
                )
                if not inside and alias.name not in symbols(file):
                    missing.append(f"{node.module}.{alias.name}")
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    assert unresolved(page) == []


def test_what_does_not_exist_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "[here](gone.md) `kernels/gone.py` `kernels/sinkhorn.py: gone` `gone.cc` "
        "python -m upsilon_jax.gone, --config.train.gone=1\n"
        "```python\nfrom upsilon_jax.types import gone\n```\n"
        "[there](page.md) `kernels/sinkhorn.py: sinkhorn` `data/source.py: Source.read`"
        "`loop.py` python -m upsilon_jax.data --config.train.epochs=1"
    )
    assert unresolved(page) == [
        "--config.train.gone",
        "gone.cc",
        "gone.md",
        "kernels/gone.py",
        "kernels/sinkhorn.py: gone",
        "python -m upsilon_jax.gone",
        "upsilon_jax.types.gone",
    ]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 200


def example(number: int, page: str = "architecture.md") -> dict:
    """What an example of a page defines."""
    block = _CODE.findall((DOCS / page).read_text("utf-8"))[number]
    names = {}
    exec(compile(block, page, "exec"), names)
    return names


def test_the_example_of_a_data_set_is_a_source():
    source = example(0)["load"](image_size=16)
    assert source.image_shape == (16, 16, 1)
    bottom = np.flatnonzero(source.test_labels == 3)
    brightest = source.read("test", bottom).mean((0, 2, 3)).argsort()[-4:]
    assert sorted(brightest) == [12, 13, 14, 15]
    assert len(source.train_labels) == 400 and len(source.test_labels) == 200


def test_the_example_of_a_metric_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    logits, label = rng.normal(size=(90, 5)), rng.choice(3, 90, p=(0.6, 0.3, 0.1))
    expected = balanced_accuracy_score(label, logits[:, :3].argmax(1))
    found = example(1)["class_mean_accuracy"](logits, label, 3)
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_example_of_a_loss_within_rpl_and_sec():
    names, rng = example(0, "plug_in.md"), np.random.default_rng(0)
    logits = rng.normal(size=(60, 7)) * 4  # 4 classes, 3 clusters
    kept, cluster = map(np.asarray, names["relabel"](logits, 4))
    assert len(set(logits[kept, :4].argmax(1))) == 4
    assert set(cluster) == {-1, 4, 5, 6} and not np.any(kept & (cluster >= 0))
    own, group = rng.normal(size=60), cluster >= 0
    rows = -log_softmax(logits, 1)[np.flatnonzero(group), cluster[group]]
    expected = (rows.sum() + own[kept].sum()) / 60
    found = names["around"](own, logits, kept, cluster)
    assert found == pytest.approx(expected, rel=1e-5)  # float32


def test_the_example_of_rpl_alone_leaves_no_cluster():
    names, rng = example(0, "plug_in.md"), np.random.default_rng(0)
    logits = rng.normal(size=(60, 4)) * 9
    kept, cluster = map(np.asarray, names["relabel"](logits, 4))
    assert kept.any() and not kept.all() and np.all(cluster == -1)
    own = rng.normal(size=60)
    expected = own[kept].sum() / 60
    assert names["around"](own, logits, kept, cluster) == pytest.approx(expected, 1e-5)
