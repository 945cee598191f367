"""Checksums: whether a checkpoint is what was saved, and for which arrays.

The record beside the arrays carries a digest of every part of the state, names and
shapes of all arrays, and a digest of all that. So whatever is damaged is noticed, and a
sound checkpoint of another network is not taken for a damaged one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np


class Damaged(Exception):
    """What was read is not what was saved; says in one line how that shows."""


def tree_digest(tree: Any) -> str:
    """sha256 over names, dtypes, shapes and bytes of all arrays of a tree."""
    sha = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        sha.update(f"{jax.tree_util.keystr(path)}{array.dtype}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def arrays_of(state: Any) -> dict[str, str]:
    """Name -> dtype and shape of every array of a state, as "float32 [3, 3, 1, 16]"."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path): f"{leaf.dtype} {list(leaf.shape)}"
        for path, leaf in leaves
    }


def seal(number: int, state: Any, record: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON-able record with all that is needed to check it and the state."""
    parts = state._asdict() if hasattr(state, "_asdict") else state
    body = {
        "number": number,
        "record": dict(record),
        "arrays": arrays_of(state),
        "digests": {name: tree_digest(part) for name, part in parts.items()},
    }
    return {**body, "digest": _digest(body)}


def check_seal(number: int, sealed: Any) -> dict[str, Any]:
    """What `seal` was given and added, if it is that; else raises Damaged."""
    if not isinstance(sealed, Mapping) or "digest" not in sealed:
        raise Damaged("its record has no checksum; another version wrote it")
    body = {name: value for name, value in sealed.items() if name != "digest"}
    if sealed["digest"] != _digest(body):
        raise Damaged("its record does not match its checksum")
    if body["number"] != number:
        raise Damaged(f"it was saved as number {body['number']}")
    return body


def check_parts(parts: Mapping[str, Any], digests: Mapping[str, str]) -> None:
    """Raises Damaged if a part of a state is not the one that was saved."""
    for name, part in parts.items():
        if digests.get(name) != tree_digest(part):
            raise Damaged("its arrays do not match their checksum")


def differing_arrays(saved: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """The first array that is not the same in both, and how many more; "" if all are.

    Args:
      saved: from `arrays_of`.
      wanted: likewise.
    """
    names = [
        name for name in {**saved, **wanted} if saved.get(name) != wanted.get(name)
    ]
    if not names:
        return ""
    old, new = (found.get(names[0], "absent") for found in (saved, wanted))
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]} is {old} there and {new} here{more}"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
