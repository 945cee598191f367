"""Memory that is freed is found again, not asked for again."""

import platform
import subprocess
import sys

import pytest

# Page faults of the later calls of a program that needs 256 MiB for a moment.
PROGRAM = """
import resource, sys
import jax, jax.numpy as jnp
from upsilon_jax.runtime.memory import keep_freed
if sys.argv[1] == "keep":
    keep_freed()
multiply = jax.jit(lambda x: jnp.dot(x @ x.T, x))
x = jax.block_until_ready(jnp.ones((8192, 2)))
faults = []
for _ in range(12):  # a call may begin before the last one has freed its memory
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    jax.block_until_ready(multiply(x))
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc only")
def test_freed_memory_is_kept():
    faults = {
        mode: int(
            subprocess.check_output([sys.executable, "-c", PROGRAM, mode], text=True)
        )
        for mode in ("keep", "default")
    }
    assert faults["keep"] < 100
    # The test sees something: 256 MiB are 65,536 pages, or 128 huge ones.
    assert faults["default"] > 100
