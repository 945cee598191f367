"""How unevenly pseudo-labels fall on the classes (appendix C)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.arguments import ArrayLike, check_where
from upsilon_jax.kernels.meshes import on_any_mesh


def imbalance(
    labels: ArrayLike, num_classes: int, where: ArrayLike | None = None
) -> tuple[jax.Array, jax.Array]:
    """Distance of the label shares q from uniform, and their largest ratio.

        kl = Σ_i q_i log(q_i C)   in nats, 0 · log 0 = 0,      ratio = max q / min q

    Args:
      labels: [M] int; those outside [0, C) are ignored.
      num_classes: C ≥ 1.
      where: [M] bool, labels that count; all if None.

    Returns:
      (kl, ratio), float32 scalars. `ratio` is inf if a class is empty; both are NaN if
      there is no label at all.

    Example:
      Shares of 3/4 and 1/4: 3/4 log(3/2) + 1/4 log(1/2) = 0.13. The -1 is no label.

      >>> import numpy as np
      >>> kl, ratio = imbalance(np.array([0, 0, 0, 1, -1]), num_classes=2)
      >>> print(f"{kl:.2f} {ratio:.0f}")
      0.13 3
    """
    labels = jnp.asarray(labels)
    if labels.ndim != 1 or num_classes < 1:
        raise ValueError(
            f"labels must be [M] with num_classes ≥ 1, got {labels.shape} and "
            f"{num_classes}"
        )
    where = check_where(where, labels.size)
    return _imbalance(labels, where, num_classes=num_classes)


@partial(jax.jit, static_argnames="num_classes")
@on_any_mesh(rows=False)
def _imbalance(labels, where, *, num_classes):
    counted = where & (labels >= 0) & (labels < num_classes)
    count = jnp.zeros(num_classes, jnp.int32)
    count = count.at[jnp.where(counted, labels, 0)].add(counted).astype(jnp.float32)
    total = count.sum()
    log_ratio = jnp.log(count * num_classes) - jnp.log(total)  # 0 if all are equal
    kl = jnp.where(count == 0, 0, count * log_ratio).sum() / total
    # The sum is never negative but for rounding; a NaN (no labels) stays one.
    return jnp.maximum(kl, 0), count.max() / count.min()
