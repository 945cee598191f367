"""The mesh, and how arrays go onto it.

One axis, "data": rows of a batch and rows of D_u are split over it, everything else is
replicated. No other file names an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh over `devices`; None takes all, or the one `jax_default_device` names."""
    if devices is None:
        default = jax.config.jax_default_device
        devices = jax.devices() if default is None else [default]
    # Explicit axes, the default, refuse `table[index]` with a sharded index.
    return Mesh(list(devices), ("data",), axis_types=(AxisType.Auto,))


def rows(mesh: Mesh) -> NamedSharding:
    """Split over the first axis of an array."""
    return NamedSharding(mesh, PartitionSpec("data"))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def put_rows(tree: Any, mesh: Mesh) -> Any:
    """Host arrays onto the devices, first axis split; its size must be divisible."""
    return jax.device_put(tree, rows(mesh))


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Host arrays onto every device."""
    return jax.device_put(tree, replicated(mesh))


def padded(count: int, mesh: Mesh) -> int:
    """The least number of rows ≥ count that every device gets an equal share of."""
    return -(-count // mesh.size) * mesh.size
