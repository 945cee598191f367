"""How unevenly pseudo-labels fall on the classes (appendix C)."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def imbalance(
    labels: jax.Array, num_classes: int, where: jax.Array | None = None
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
    """
    labels = jnp.asarray(labels)
    if labels.ndim != 1 or num_classes < 1:
        raise ValueError(
            f"labels must be [M] with num_classes ≥ 1, got {labels.shape} and "
            f"{num_classes}"
        )
    if where is not None and jnp.shape(where) != labels.shape:
        raise ValueError(f"where must be [M] = {labels.shape}, got {jnp.shape(where)}")
    counted = (labels >= 0) & (labels < num_classes)
    counted = counted if where is None else counted & where
    slots = jnp.zeros(num_classes, jnp.int32)
    count = slots.at[jnp.where(counted, labels, 0)].add(counted)
    share = count / count.sum().astype(jnp.float32)
    kl = jnp.sum(jnp.where(count > 0, share * jnp.log(share * num_classes), 0))
    # Σ q log(q C) ≥ 0; rounding may leave -1e-8. A NaN stays one.
    return jnp.where(count.sum() > 0, jnp.maximum(kl, 0), jnp.nan), (
        count.max() / count.min().astype(jnp.float32)
    )
