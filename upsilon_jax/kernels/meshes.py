"""Kernels on any mesh: those with Explicit axes, which `jax.make_mesh` makes, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

Result = TypeVar("Result")


def on_any_mesh(
    function: Callable[..., Result] | None = None, *, rows: Any = True
) -> Callable[..., Any]:
    """Lets a function of arrays run where the axes of a mesh are Explicit.

    There jax would ask for the place of every intermediate result, and the C++ code
    cannot be partitioned. So inside, the axes are Auto: XLA chooses the places. The
    results lie as the rows of the first argument do.

    Use it directly below `jax.jit`: it takes the arguments' types.

    Args:
      function: of arrays, the first of them with M rows, and of static keywords.
      rows: whether the results have M rows; or a tree of that, for each of them. Those
        without lie whole on every device.
    """
    if function is None:
        return functools.partial(on_any_mesh, rows=rows)

    @functools.wraps(function)
    def call(*args, **static):
        mesh = _explicit_mesh(args)
        if mesh is None:
            return function(*args, **static)
        axis = jax.typeof(args[0]).sharding.spec[0]
        place = lambda rows: NamedSharding(mesh, PartitionSpec(*[axis] * rows))
        inside = jax.sharding.auto_axes(
            function, axes=mesh.explicit_axes, out_sharding=jax.tree.map(place, rows)
        )
        return inside(*args, **static)

    return call


def _explicit_mesh(args: tuple[Any, ...]) -> AbstractMesh | None:
    """The mesh with Explicit axes on which arguments lie, or which jax.set_mesh set."""
    meshes = [jax.typeof(x).sharding.mesh for x in jax.tree.leaves(args)]
    meshes.append(jax.sharding.get_abstract_mesh())
    explicit = [mesh for mesh in meshes if AxisType.Explicit in mesh.axis_types]
    return explicit[0] if explicit else None
