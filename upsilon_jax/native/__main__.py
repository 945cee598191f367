"""Compiles the C++ code ahead of time, so that no run has to.

python -m upsilon_jax.native
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from upsilon_jax import native
from upsilon_jax.errors import UserError
from upsilon_jax.native.libraries import NotBuilt, build


def main(argv: Sequence[str]) -> int:
    """The command: 0 if all is there and kept, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m upsilon_jax.native", description=__doc__.splitlines()[0]
    )
    parser.parse_args(argv)
    try:
        if not native.switched_on():
            print(f"{native.SWITCH}=0 turns the C++ code off: nothing is compiled")
            return 1
        return max([_build(name) for name in native.FUNCTIONS])
    except UserError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def _build(name: str) -> int:
    try:
        built = build(name, native.FUNCTIONS[name])
    except NotBuilt as error:
        print(f"{name}: not compiled, XLA computes it instead. {error}")
        return 1
    if not built.path:
        print(f"{name}: compiled, but it cannot be kept: every run compiles it anew")
        return 1
    done = f"compiled in {built.seconds:.1f} s" if built.seconds else "found"
    print(f"{name}: {done}, {built.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
