"""A row in a process of its own.

What one row leaves in memory would slow down the next, and in the end fill the machine.
"""

from __future__ import annotations

import multiprocessing
import pkgutil
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from upsilon_jax.runtime.memory import keep_freed


def call_alone(function: str, *args: Any) -> Any:
    """Calls "module.function" in a new process; its result comes back by pickle."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as process:
        return process.submit(_call, function, args).result()


def _call(function, args):
    keep_freed()  # as `runtime.setup`; the peers gain by it as much as we do
    return pkgutil.resolve_name(function)(*args)
