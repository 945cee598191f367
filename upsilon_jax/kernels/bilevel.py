"""The gradient of a loss after a look-ahead step, with respect to what shaped it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


def meta_gradient(
    inner: Callable[[Any, Any], jax.Array],
    outer: Callable[[Any], jax.Array],
    params: Any,
    alpha: Any,
    rate: float,
) -> Any:
    """∇_α outer(θ - η ∇_θ inner(θ, α)), exact to second order.

    Reverse over reverse mode, so `inner` may hold functions with their own backward
    pass (`jax.custom_vjp`).

    Args:
      inner: (θ, α) -> scalar.
      outer: θ̂ -> scalar.
      params: θ, a tree.
      alpha: α, a tree.
      rate: η of the look-ahead step, plain gradient descent.

    Returns:
      A tree like `alpha`.
    """

    def look_ahead_loss(alpha):
        gradient = jax.grad(inner)(params, alpha)
        return outer(jax.tree.map(lambda p, g: p - rate * g, params, gradient))

    return jax.grad(look_ahead_loss)(alpha)
