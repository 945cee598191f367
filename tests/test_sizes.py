"""Files and functions stay short enough to read in one sitting."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("upsilon_jax", "configs", "benchmarks", "tests")
FILE_LINES = 300
FUNCTION_LINES = 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def files(*suffixes):
    found = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*")]
    found.append(ROOT / "main.py")
    return sorted(p for p in found if p.suffix in suffixes)


def docstring_lines(node):
    """Lines of the docstrings in a function, those of nested functions included."""
    total = 0
    for inner in ast.walk(node):
        documented = isinstance(inner, (*FUNCTIONS, ast.ClassDef))
        if documented and ast.get_docstring(inner) is not None:
            text = inner.body[0]
            total += text.end_lineno - text.lineno + 1
    return total


def long_functions(source):
    """Names and lengths of functions that are too long, docstrings not counted."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, FUNCTIONS):
            length = node.end_lineno - node.lineno + 1 - docstring_lines(node)
            if length > FUNCTION_LINES:
                found[node.name] = length
    return found


def test_there_are_files_to_look_at():
    assert len(files(".py")) > 100
    assert {"rows.cc", "winograd.cc"} <= {path.name for path in files(".cc")}


def test_no_file_is_long():
    length = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in files(".py", ".cc", ".h")
    }
    assert {name: n for name, n in length.items() if n > FILE_LINES} == {}


def test_no_function_is_long():
    found = {
        str(path.relative_to(ROOT)): long_functions(path.read_text())
        for path in files(".py")
    }
    assert {name: long for name, long in found.items() if long} == {}


@pytest.mark.parametrize("num_lines", [FUNCTION_LINES, FUNCTION_LINES + 1])
def test_docstrings_do_not_count_but_nested_functions_do(num_lines):
    nested = ["    def inner():", '        """Says', "", '        so."""']
    body = ["        pass"] * (num_lines - 2)
    outer = ["def outer():", '    """A', '    docstring."""']
    source = "\n".join([*outer, *nested, *body])
    expected = {"outer": num_lines} if num_lines > FUNCTION_LINES else {}
    assert long_functions(source) == expected
