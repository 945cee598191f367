"""C++ functions that XLA:CPU calls, compiled on the machine they run on.

XLA:CPU has no fast convolution, and takes several passes over memory where one would
do. This code makes up for that. It is optional: without it everything works, but more
slowly and with other rounding.

    python -m upsilon_jax.native    compiles it ahead of time
    UPSILON_NATIVE=0                turns it off
"""

from __future__ import annotations

import functools
import logging
import os
import threading

import jax

from upsilon_jax.errors import UserError
from upsilon_jax.native.libraries import NotBuilt, build

FUNCTIONS = {
    "rows": ("rows_exponents", "rows_masses", "rows_softmax", "rows_top_label"),
    "winograd": ("winograd_convolve", "winograd_weight_gradient"),
}
SWITCH = "UPSILON_NATIVE"

_lock = threading.Lock()  # seeds that train together trace in threads of their own
_registered: dict[str, bool] = {}  # whether it could be; none is tried twice
_used: set[str] = set()  # libraries that a traced program calls


def available(name: str) -> bool:
    """Whether `jax.ffi.ffi_call` can call the functions of NAME.cc: ask before you do.

    The very first time, this compiles the file, which takes some seconds. If that fails
    a warning says so, and the answer stays "no" in this process.
    """
    if not switched_on() or jax.default_backend() != "cpu":
        return False
    with _lock:
        if name not in _registered:
            _registered[name] = _register(name)
        if _registered[name]:
            _used.add(name)
        return _registered[name]


def in_use() -> bool:
    """Whether a program that was traced in this process calls C++ code.

    It changes the last digits of results, so they record it.
    """
    return bool(_used)


def switched_on() -> bool:
    """Whether UPSILON_NATIVE allows the code. Programs already traced do not change."""
    value = os.environ.get(SWITCH, "")
    if value not in ("", "0", "1"):
        raise UserError(f"{SWITCH} must be 0 (off) or 1 (on), got {value!r}")
    return value != "0"


def target(function: str) -> str:
    """The name under which XLA knows a function."""
    return f"upsilon_jax.{function}"


def _register(name: str) -> bool:
    """Makes the functions of NAME.cc known to XLA, if they can be compiled."""
    try:
        library = build(name, FUNCTIONS[name]).library
    except NotBuilt as error:
        _warn(error.line)
        return False
    for function in FUNCTIONS[name]:
        capsule = jax.ffi.pycapsule(getattr(library, function))
        jax.ffi.register_ffi_target(target(function), capsule, platform="cpu")
    return True


@functools.cache
def _warn(reason: str) -> None:
    """Once for each reason: both libraries may have the same."""
    logging.getLogger(__name__).warning(
        "upsilon_jax's C++ code is left off: slower, and rounded differently "
        "(%s=0 hides this line). %s",
        SWITCH,
        reason,
    )
