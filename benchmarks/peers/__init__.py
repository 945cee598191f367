"""The peers: the same work as users of other libraries would write it."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

INSTALL = "pip install -e '.[bench]'"


class MissingPeer(ImportError):
    """A peer is not installed; the message is one line for the user."""


def require(module: str) -> ModuleType:
    """Imports a peer, or says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPeer(f"{module} is missing: {INSTALL}") from error


def num_cores() -> int:
    """Cores this process may use: as many threads as every library gets."""
    return len(os.sched_getaffinity(0))
