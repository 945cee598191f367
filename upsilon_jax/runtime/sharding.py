"""The mesh, and how arrays go onto it.

One axis, "data": rows of a batch and rows of D_u are split over it, everything else is
replicated. No other file names an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh over `devices`; None takes all, or the one `jax_default_device` names."""
    devices = _default_devices() if devices is None else list(devices)
    # Explicit axes, the default, refuse `table[index]` with a sharded index.
    return Mesh(devices, ("data",), axis_types=(AxisType.Auto,))


def seed_meshes(num_seeds: int) -> list[Mesh]:
    """Equal shares of the devices, one for each seed; none where they are too few."""
    devices = _default_devices()
    share = len(devices) // num_seeds
    if not share or jax.process_count() > 1:
        return []
    starts = range(0, num_seeds * share, share)
    return [data_mesh(devices[start : start + share]) for start in starts]


def _default_devices() -> list[jax.Device]:
    # jax adds the attributes of its config when it is imported.
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    return jax.devices() if default is None else [default]


def rows(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """Split over one axis of an array."""
    return NamedSharding(mesh, PartitionSpec(*(None,) * axis, "data"))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def put_rows(tree: Any, mesh: Mesh, axis: int = 0) -> Any:
    """Arrays that every process holds, one axis split; its size must be divisible."""
    return jax.tree.map(lambda array: _put(array, rows(mesh, axis)), tree)


def put_own_rows(tree: Any, mesh: Mesh, axis: int = 0) -> Any:
    """Arrays of which every process holds its share of rows, as `own_share` says."""
    where = rows(mesh, axis)
    put = lambda array: jax.make_array_from_process_local_data(where, array)
    return jax.tree.map(put, tree)


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Arrays that every process holds, onto every device."""
    return jax.tree.map(lambda array: _put(array, replicated(mesh)), tree)


def _put(array: Any, where: NamedSharding) -> jax.Array:
    if jax.process_count() == 1:
        return jax.device_put(array, where)
    # `device_put` would compare the values across processes, every time.
    return jax.make_array_from_callback(array.shape, where, lambda index: array[index])


def fetch(tree: Any) -> Any:
    """Whole arrays on the host of every process."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def own_share() -> tuple[int, int]:
    """(i, n): this process is the i-th of n, and holds that part of every row axis."""
    return jax.process_index(), jax.process_count()


def padded(count: int, mesh: Mesh) -> int:
    """The least number of rows ≥ count that every device gets an equal share of."""
    return -(-count // mesh.size) * mesh.size
