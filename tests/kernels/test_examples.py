"""The examples in docstrings: every public kernel has one, and it runs as printed."""

import doctest

import pytest

import upsilon_jax
from upsilon_jax import kernels

FINDER, RUNNER = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
PUBLIC = {"upsilon_jax": upsilon_jax} | {
    name: getattr(kernels, name) for name in kernels.__all__
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_runs_as_printed(name, capsys):
    names = {key: PUBLIC[key] for key in kernels.__all__}
    [example] = FINDER.find(PUBLIC[name], name, globs=names)
    assert example.examples, "there is none"
    failed = RUNNER.run(example).failed
    assert not failed, capsys.readouterr().out
