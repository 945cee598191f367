"""What the kernels take, and the checks that they share.

A number that is known (no tracer of `jax.jit`) must be in its range, else a ValueError
says so. Of a traced one only the shape is known.
"""

from __future__ import annotations

from numbers import Integral
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

# Whatever `jnp.asarray` takes: arrays of jax and numpy, numbers, nested lists of them.
ArrayLike: TypeAlias = jax.Array | np.typing.ArrayLike
Scalar: TypeAlias = float | jax.Array | np.floating


def to_float(x: ArrayLike) -> jax.Array:
    """The array in float32, or float64 if it is that already."""
    x = jnp.asarray(x)
    if jnp.iscomplexobj(x):
        raise ValueError(f"entries must be real, got {x.dtype}")
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def check_problem(
    log_probs: ArrayLike, epsilon: Scalar, where: ArrayLike | None
) -> tuple[jax.Array, jax.Array | None, Scalar]:
    """Checks the arguments that `sinkhorn` and `balance` share."""
    log_probs = to_float(log_probs)
    if log_probs.ndim != 2 or log_probs.shape[1] < 1:
        raise ValueError(f"log_probs must be [M, K ≥ 1], got {log_probs.shape}")
    tiny = float(jnp.finfo(log_probs.dtype).tiny)  # ε and 1/ε must not underflow
    epsilon = check_number("epsilon", epsilon, tiny, 1 / tiny)
    if where is not None:
        where = check_where(where, log_probs.shape[0])
    return log_probs, where, epsilon


def check_where(where: ArrayLike | None, num_rows: int) -> jax.Array:
    """[M] bool; all rows if None."""
    if where is None:
        # XLA would take seconds to sum a constant [1e6] when it compiles.
        return jax.lax.optimization_barrier(jnp.ones(num_rows, bool))
    where = jnp.asarray(where, bool)
    if where.shape != (num_rows,):
        raise ValueError(f"where must be [M] = [{num_rows}], got {where.shape}")
    return where


def check_number(name: str, value: Scalar, low: float, high: float) -> Scalar:
    """The number, as a Python float if it is known; then it must be in [low, high]."""
    if jnp.shape(value) != ():
        raise ValueError(f"{name} must be one number, got shape {jnp.shape(value)}")
    if isinstance(value, jax.core.Tracer):
        return value
    if not low <= value <= high:
        raise ValueError(f"{name} must be in [{low:.3g}, {high:.3g}], got {value}")
    return float(value)


def check_num_iters(num_iters: int) -> int:
    """A static number of iterations, which are counted in 32 bits."""
    if not isinstance(num_iters, Integral) or not 1 <= num_iters < 2**31:
        raise ValueError(f"num_iters must be in [1, 2**31) and whole, got {num_iters}")
    return int(num_iters)
