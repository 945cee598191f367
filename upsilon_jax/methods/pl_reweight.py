"""PL-Reweight (paper appendix D): pseudo-labeling with balanced class weights."""

from __future__ import annotations

import jax.numpy as jnp

from upsilon_jax import kernels
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.pseudo_labels import pseudo_label_method
from upsilon_jax.types import PseudoLabels


def pl_reweight(
    num_classes: int,
    *,
    threshold: float = 0.95,
    max_weight: float | None = None,
    loss_weight: float = 1.0,
    ramp_steps: int = 0,
    start_steps: int = 0,
    normalize: str = "unlabeled",
    pseudo_batches: str = "selected",
    labeler: str = "live",
) -> Method:
    """Vanilla PL whose n_y pseudo-labels of class y weigh w_y = Σ_j n_j / (C n_y) each.

    Every class then has the same total weight and, if none is empty, the mean weight
    is 1. The paper says only that it reweights to balance; inverse frequency is
    [inferred]. A class without pseudo-labels has no row that would use its weight.

    Args:
      num_classes: C.
      threshold: τ.
      max_weight: cap of w_y; None, the paper's unstable case, for no cap.
      loss_weight: λ.
      ramp_steps: steps over which λ rises, 0 for none.
      start_steps: the step from which the ramp counts (the end of pre-training).
      normalize: see `pseudo_label_loss`.
      pseudo_batches: see `pseudo_label_loss`.
      labeler: weights that make pseudo-labels, "live" or "ema".
    """

    def refresh(state, outputs, where, key):
        chosen = kernels.pseudo_label(
            outputs.unlabeled["logits"], num_classes, threshold=threshold, where=where
        )
        label = jnp.maximum(chosen.label, 0)
        count = jnp.zeros(num_classes, chosen.weight.dtype)
        count = count.at[label].add(chosen.weight)
        balanced = jnp.sum(count) / (num_classes * jnp.maximum(count, 1))
        if max_weight is not None:
            balanced = jnp.minimum(balanced, max_weight)
        return PseudoLabels(chosen.label, chosen.weight * balanced[label])

    return pseudo_label_method(
        num_classes,
        refresh=refresh,
        labeler=labeler,
        loss_weight=loss_weight,
        ramp_steps=ramp_steps,
        start_steps=start_steps,
        normalize=normalize,
        pseudo_batches=pseudo_batches,
    )
