"""FixMatch (Sohn et al. 2020, §2)."""

from __future__ import annotations

import jax.numpy as jnp

from upsilon_jax.kernels.losses import confident_cross_entropy
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_pass
from upsilon_jax.methods.selection import row_losses
from upsilon_jax.types import Aux, Head


def fixmatch(
    num_classes: int,
    num_clusters: int = 0,
    *,
    threshold: float = 0.95,
    loss_weight: float = 1.0,
    labeled_view: str = "strong",
) -> Method:
    """The label of a confident weak view supervises the strong view.

        q = softmax(z(weak)) [M, T], no gradient;  ŷ = argmax_{y<C} q_y,  c = q_ŷ
        L = mean CE(z_l, y_l) + λ_u · (1/M) Σ_i 1[c_i ≥ τ] CE(z(strong_i), ŷ_i)

    The mean is over all M rows, not over the confident ones; inside it `row_losses`
    weighs rows and takes the CE of z(strong_i) to a cluster. Labeled, strong and weak
    rows pass in one forward, which updates BatchNorm. The paper takes as many unlabeled
    as labeled rows (μ = 1) and one augmentation for both views.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      threshold: τ; a confidence of exactly τ counts, unlike in pseudo-labeling.
      loss_weight: λ_u.
      labeled_view: of a labeled image; "weak" in the authors' code.
    """

    def loss(forward, params, state, batch, key):
        labeled, (z_strong, z_weak), stats = joint_pass(
            forward, params, state, batch, key, num_views=2
        )
        per_row, confident = confident_cross_entropy(
            z_strong, z_weak, num_classes, threshold
        )
        unlabeled = jnp.mean(row_losses(per_row, z_strong, batch.pseudo, num_classes))

        metrics = {
            "labeled_loss": labeled,
            "unlabeled_loss": unlabeled,
            "confident": jnp.mean(confident),
        }
        total = labeled + loss_weight * unlabeled
        return total, Aux(stats, state.method, metrics)

    return Method(
        loss=loss,
        heads={"logits": Head(num_classes + num_clusters)},
        views=("strong", "weak"),
        labeled_views=(labeled_view,),
    )
