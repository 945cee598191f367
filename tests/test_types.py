"""The type checker over the package, and over a program that uses its public names."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PROGRAM = """
import jax
import numpy as np
from typing import assert_type
from upsilon_jax import (
    Assignment, PseudoLabels, assign, balance, explore, imbalance, pseudo_label,
    rebalance, sinkhorn,
)

x, where = np.zeros((8, 4), np.float32), [True] * 8
assert_type(sinkhorn([[0.0, 1.0]], epsilon=np.float32(0.1)), jax.Array)
assert_type(balance(x, epsilon=jax.numpy.float32(0.1), where=where), jax.Array)
assert_type(assign(x, solver="newton"), Assignment)
assert_type(assign(x).potentials, jax.Array)
assert_type(rebalance(x, 2, threshold=0.5, where=where), PseudoLabels)
assert_type(pseudo_label(x, 2).label, jax.Array)
assert_type(explore(jax.numpy.asarray(x), 2), PseudoLabels)
assert_type(imbalance([0, 1], 2), tuple[jax.Array, jax.Array])
"""


def check(*arguments):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_the_package():
    found = check()
    assert not found.returncode, found.stdout + found.stderr


@pytest.mark.slow
def test_a_program_that_uses_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = check(str(program))
    assert not found.returncode, found.stdout + found.stderr
    program.write_text(PROGRAM + "\nsinkhorn(x, epsilon='small')\n")
    assert 'incompatible type "str"' in check(str(program)).stdout
