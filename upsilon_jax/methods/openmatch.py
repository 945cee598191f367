"""OpenMatch (Saito et al. 2021)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import (
    confident_cross_entropy,
    cross_entropy,
    detector_consistency,
    detector_entropy,
    one_vs_all,
    weighted_mean,
)
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_outputs
from upsilon_jax.methods.selection import cluster_loss, outside_clusters
from upsilon_jax.types import Aux, Head, Outputs

# A detector says "is not" above this probability.
_UNDECIDED = 0.5


def find_inliers(outputs: Outputs, where: jax.Array, num_classes: int) -> jax.Array:
    """[N] 1 where the detector of the most probable class ŷ says "is", else 0.

    It does if p[0, ŷ] < 1/2. Rows outside `where` are no inliers.
    """
    best = jnp.argmax(outputs["logits"][:, :num_classes], axis=1)
    outlier = jax.nn.softmax(outputs["open"], axis=1)[:, 0]
    outlier = jnp.take_along_axis(outlier, best[:, None], axis=1)[:, 0]
    return (where & (outlier < _UNDECIDED)).astype(jnp.float32)


def _detector_losses(o_l, o_a, o_b, label, weighed):
    """L_ova, L_oem and L_socr; `weighed` multiplies rows [M] by their weights in P."""
    ova = jnp.mean(one_vs_all(o_l, label))
    entropies = weighed(detector_entropy(o_a)), weighed(detector_entropy(o_b))
    oem = jnp.mean(jnp.stack(entropies))
    return ova, oem, jnp.mean(weighed(detector_consistency(o_a, o_b)))


def openmatch(
    num_classes: int,
    num_clusters: int = 0,
    *,
    ova_weight: float = 1.0,
    entropy_weight: float = 0.1,
    consistency_weight: float = 0.5,
    threshold: float = 0.0,
    start_steps: int = 1_570,
    labeled_view: str = "strong",
) -> Method:
    """C one-vs-all detectors beside the classifier; FixMatch on what they call ID.

    Heads: z [., T], and o [., 2, C] without bias, p = softmax over the axis of size 2;
    p[:, 1, j] is "is class j". With two views a, b of every labeled and unlabeled image

        L = L_x + λ_o L_ova + λ_e L_oem + λ L_socr + L_fix
        L_x, L_ova  mean over the 2B labeled rows of CE and of `one_vs_all`
        L_oem       mean over the 2M unlabeled rows of `detector_entropy`
        L_socr      mean over the M images of Σ (p_a - p_b)²; both sides have gradient
        L_fix       mean over inliers of 1[c(b) ≥ τ] CE(z(a), ŷ(b)), c and ŷ the maximum
                    of f over the C classes and where it is; b has no gradient; 0
                    before `start_steps`, or without inliers

    In a composed method L_oem, L_socr and the inliers are weighed by P, and the CE of
    z(a) to clusters is a mean of its own over the M images. At a refresh the EMA
    network predicts D_u, for `find_inliers`. All 2B + 2M rows pass in one forward; it
    updates BatchNorm.

    Differs from the authors' code: L_fix uses the inliers among the same M images and
    the same two views, where theirs draws a second batch from the inliers and runs a
    second forward; with one augmentation for all views, as in the paper, the term has
    the same expectation, and too few inliers for a batch is no special case. The 1e-8
    inside their logarithms is not needed: these are log-softmaxes.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      ova_weight: λ_o.
      entropy_weight: λ_e.
      consistency_weight: λ of L_socr; 0.5 for CIFAR-10, 1 for CIFAR-100.
      threshold: τ of L_fix.
      start_steps: when L_fix begins; the default is 10 epochs of 157 steps.
      labeled_view: of a labeled image, twice; "weak" in the authors' code.
    """

    def init(key, params, num_unlabeled, hidden=None):
        return jnp.zeros(num_unlabeled, jnp.float32)  # [N], 1 for an inlier

    def loss(forward, params, state, batch, key):
        outputs, stats = joint_outputs(forward, params, state, batch, key)
        (*z_l, z_a, z_b), (*o_l, o_a, o_b) = outputs["logits"], outputs["open"]
        label = jnp.concatenate([batch.label, batch.label])
        weighed = lambda rows: outside_clusters(rows, batch.pseudo, num_classes)

        labeled = jnp.mean(cross_entropy(jnp.concatenate(z_l), label))
        ova, oem, socr = _detector_losses(
            jnp.concatenate(o_l), o_a, o_b, label, weighed
        )
        per_row, _ = confident_cross_entropy(z_a, z_b, num_classes, threshold)
        inlier, started = weighed(state.method[batch.index]), state.step >= start_steps
        unlabeled = jnp.where(started, weighted_mean(per_row, inlier), 0)
        unlabeled += cluster_loss(z_a, batch.pseudo, num_classes)

        total = labeled + ova_weight * ova + entropy_weight * oem
        total += consistency_weight * socr + unlabeled
        metrics = {
            "labeled_loss": labeled,
            "ova_loss": ova,
            "entropy_loss": oem,
            "consistency_loss": socr,
            "unlabeled_loss": unlabeled,
            "inliers": jnp.mean(state.method),
        }
        return total, Aux(stats, state.method, metrics)

    def refresh(state, outputs, where, key):
        return find_inliers(outputs.unlabeled, where, num_classes)

    return Method(
        loss=loss,
        heads={
            "logits": Head(num_classes + num_clusters),
            "open": Head((2, num_classes), bias=False),
        },
        init=init,
        refresh=refresh,
        refresh_with="ema",
        refresh_epochs=1,
        views=("strong", "weak"),
        labeled_views=(labeled_view, labeled_view),
    )
