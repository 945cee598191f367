"""Functions of the rows of a matrix: C++ on a CPU, jnp elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from upsilon_jax.native import available, target


def by_rows(
    name: str, plain: Callable[..., Any], rule: str, *, sums: bool = False
) -> Callable[..., Any]:
    """A function that a CPU runs in C++, for float32 and where that can be compiled.

    Rows may be sharded over devices: each device works on its own rows. The C++ code
    has no derivative.

    Args:
      name: of the function in `native/rows.cc`, with the arguments of `plain`.
      plain: the same up to rounding, written in jnp. All that it depends on must be an
        argument: the cache of programs for several devices tells them apart by nothing
        else.
      rule: dimensions of its arguments and results, with m for rows: "m k, k -> m".
      sums: whether the results are sums over rows, to be added up over devices.
    """

    def compute(*args):
        native = jax.ffi.ffi_call(target(name), jax.eval_shape(plain, *args))
        return jax.lax.platform_dependent(*args, cpu=native, default=plain)

    def call(*args: jax.Array) -> Any:
        if args[0].dtype != jnp.float32 or not available("rows"):
            return plain(*args)
        return sequential_vmap(_partitioned(compute, rule, sums))(*args)

    return call


def _partitioned(compute, rule, sums):
    """`compute`, where every device works on its own rows."""
    arguments, results = (
        [term.strip().startswith("m") for term in side.split(",")]
        for side in rule.split("->")
    )

    def partition(mesh, shapes, result):
        # Where nothing is sharded there may be no spec, or an empty one.
        spec = getattr(shapes[0].sharding, "spec", None)
        axis = spec[0] if spec else None
        place = lambda rows: NamedSharding(mesh, PartitionSpec(axis if rows else None))

        def compute_own(*args):
            found = compute(*args)
            return jax.lax.psum(found, axis) if sums and axis else found

        places = jax.tree.unflatten(jax.tree.structure(result), map(place, results))
        return mesh, compute_own, places, tuple(map(place, arguments))

    partitioned = custom_partitioning(compute)
    partitioned.def_partition(
        partition,
        sharding_rule=rule,
        reduction_factors=("m",) if sums else (),
        need_replication_factors=("k",),
    )
    return partitioned
