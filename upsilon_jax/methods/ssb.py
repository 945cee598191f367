"""SSB, classifier and detectors with heads of their own (Fan et al. 2023)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import (
    confident_cross_entropy,
    cross_entropy,
    detector_consistency,
    detector_entropy,
)
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_outputs
from upsilon_jax.types import Aux, Head


def positives(logits: jax.Array, label: jax.Array) -> jax.Array:
    """-log o(is y) of every row's own class, [B, 2, C] -> [B]."""
    loss = -jax.nn.log_softmax(logits, axis=1)[:, 1]
    return jnp.take_along_axis(loss, label[:, None], axis=1)[:, 0]


def negatives(logits: jax.Array, negative: jax.Array) -> jax.Array:
    """Σ_c n_c · (-log o(is not c)), [B, 2, C] and weights n [B, C] -> [B]."""
    return jnp.sum(-jax.nn.log_softmax(logits, axis=1)[:, 0] * negative, axis=1)


def ssb(
    num_classes: int,
    *,
    threshold: float = 0.95,
    negative_threshold: float = 0.01,
    ova_weight: float = 1.0,
    entropy_weight: float = 0.1,
    consistency_weight: float = 0.5,
    negative_weight: float = 1.0,
    loss_weight: float = 1.0,
    num_hidden: int = 1024,
    start_steps: int = 58_404,
) -> Method:
    """FixMatch on all images, and detectors that do not disturb the classifier.

    Heads z [., C] and o [., 2, C] have two hidden layers each; o is a softmax over the
    axis of size 2. With views a, b (weak) and s (strong) of an unlabeled image, and a
    weak and a strong one of a labeled image,

        L = L_x + λ_o L_ova + λ_e L_oem + λ L_socr + λ_u L_fix + λ_n L_neg
        L_x     mean CE over weak labeled rows
        L_ova   mean `positives` over weak labeled rows, and the mean over weak and
                strong ones and over all C classes of 1[c ≠ y] (-log o(is not c))
        L_oem   mean `detector_entropy` of a and of b
        L_socr  mean `detector_consistency` of a and b; both sides have gradient
        L_fix   mean_i 1[c(a_i) ≥ τ] CE(z(s_i), ŷ(a_i)) over all M rows,
                inliers or not
        L_neg   mean_i Σ_c 1[o(is c | a_i) ≤ τ_n] (-log o(is not c | s_i)); 0 before
                `start_steps`; a has no gradient

    All 2B + 3M rows pass in one forward, which updates BatchNorm.

    Differs from the authors' code: L_fix takes the same M images, where theirs draws a
    second batch for it, and begins with the first step, theirs after 10 of 512 epochs;
    one weak and one strong view of a labeled image instead of two.
    Expectations are the same.

    Args:
      num_classes: C.
      threshold: τ.
      negative_threshold: τ_n.
      ova_weight: λ_o.
      entropy_weight: λ_e.
      consistency_weight: λ of L_socr; 0.5 for CIFAR-10, 1 for CIFAR-100.
      negative_weight: λ_n.
      loss_weight: λ_u.
      num_hidden: width of the hidden layers.
      start_steps: when L_neg begins; the authors' is after 475 of 512 epochs, the
        default 93 % of 400 epochs of 157 steps.
    """

    def labeled_losses(z_weak, o_weak, o_strong, label):
        others = 1 - jax.nn.one_hot(label, num_classes, dtype=o_weak.dtype)
        rows = jnp.concatenate([negatives(o, others) for o in (o_weak, o_strong)])
        ova = jnp.mean(positives(o_weak, label)) + jnp.mean(rows) / num_classes
        return jnp.mean(cross_entropy(z_weak, label)), ova

    def loss(forward, params, state, batch, key):
        outputs, stats = joint_outputs(forward, params, state, batch, key)
        z_l, _, z_s, z_a, _ = outputs["logits"]
        o_l, o_ls, o_s, o_a, o_b = outputs["open"]

        labeled, ova = labeled_losses(z_l, o_l, o_ls, batch.label)
        entropy = jnp.mean(jnp.stack([detector_entropy(o_a), detector_entropy(o_b)]))
        consistency = jnp.mean(detector_consistency(o_a, o_b))
        per_row, confident = confident_cross_entropy(z_s, z_a, num_classes, threshold)
        unlabeled = jnp.mean(per_row)
        accepted = jax.nn.softmax(jax.lax.stop_gradient(o_a), axis=1)[:, 1]
        foreign = (accepted <= negative_threshold).astype(o_s.dtype)
        started = state.step >= start_steps
        negative = jnp.where(started, jnp.mean(negatives(o_s, foreign)), 0)

        total = labeled + ova_weight * ova + entropy_weight * entropy
        total += consistency_weight * consistency + loss_weight * unlabeled
        metrics = {
            "labeled_loss": labeled,
            "ova_loss": ova,
            "entropy_loss": entropy,
            "consistency_loss": consistency,
            "unlabeled_loss": unlabeled,
            "negative_loss": negative,
            "confident": jnp.mean(confident),
        }
        return total + negative_weight * negative, Aux(stats, state.method, metrics)

    layers = (num_hidden, num_hidden)
    return Method(
        loss=loss,
        heads={
            "logits": Head(num_classes, hidden=layers),
            "open": Head((2, num_classes), bias=False, hidden=layers),
        },
        views=("strong", "weak", "weak"),
        labeled_views=("weak", "strong"),
    )
