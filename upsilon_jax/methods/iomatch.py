"""IOMatch (Li et al. 2023)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import cross_entropy, one_vs_all, soft_cross_entropy
from upsilon_jax.kernels.targets import aligned
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_outputs
from upsilon_jax.types import Aux, Head

# An image whose share of foreign is less is an inlier.
_UNDECIDED = 0.5


def open_targets(prob: jax.Array, detectors: jax.Array) -> jax.Array:
    """Inliers by class and outliers as one more class, [M, C + 1]; rows sum to 1.

        q_c = p_c · o[1, c],    q_{C+1} = Σ_c p_c · o[0, c]

    Args:
      prob: [M, C] p.
      detectors: [M, 2, C] logits of o, a softmax over the axis of size 2; entry 1 is
        "is class c".
    """
    pair = jax.nn.softmax(detectors, axis=1)
    outlier = jnp.sum(prob * pair[:, 0], axis=1, keepdims=True)
    return jnp.concatenate([prob * pair[:, 1], outlier], axis=1)


def aligned_by_queue(
    prob: jax.Array, queue: jax.Array, step: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """[M, C] aligned to a uniform mean over the batches of a queue, which it enters.

    Args:
      prob: [M, C] of this batch.
      queue: [Q, C] means of the last Q batches, 0 where there was none yet.
      step: [] of the run.
    """
    mean = jnp.mean(prob, axis=0).astype(queue.dtype)
    queue = queue.at[step % len(queue)].set(mean)
    return aligned(prob, jnp.sum(queue, axis=0) / jnp.sum(queue)), queue


def iomatch(
    num_classes: int,
    *,
    threshold: float = 0.95,
    open_threshold: float = 0.5,
    ova_weight: float = 1.0,
    open_weight: float = 1.0,
    loss_weight: float = 1.0,
    align_batches: int = 0,
    num_hidden: int = 128,
    start_steps: int = 157,
) -> Method:
    """Inliers and outliers are learned together, by a classifier of C + 1 classes.

    Heads: z [., C]; of a projection of the features o [., 2, C] without bias and
    v [., C + 1]. With p = softmax(z(weak)) and q = `open_targets`, no gradient,

        L = mean CE(z_l, y_l) + L_ova + λ_u L_closed + λ_o L_open
        L_ova     mean of `one_vs_all` over the labeled rows
        L_closed  mean_i 1[q_{i,C+1} < 1/2] 1[max p_i ≥ τ] CE(z(strong_i), p_i)
        L_open    mean_i 1[max q_i ≥ τ_q] CE(v(strong_i), q_i); 0 before `start_steps`

    Means are over all M rows, targets are soft. With `align_batches` p is first aligned
    to a uniform mean (`aligned`), over so many batches. Labeled, strong and weak rows
    pass in one forward, which updates BatchNorm.

    Args:
      num_classes: C.
      threshold: τ.
      open_threshold: τ_q.
      ova_weight: of L_ova.
      open_weight: λ_o.
      loss_weight: λ_u.
      align_batches: the authors take 0 (off) for CIFAR-10, 128 for CIFAR-100.
      num_hidden: width of both layers of the projection; the authors' is that of the
        features and then 128, which is the same in a WRN-28-2.
      start_steps: when L_open begins; the default is an epoch of 157 steps.
    """

    def init(key, params, num_unlabeled, hidden=None):
        if not align_batches:
            return ()
        return jnp.zeros((align_batches, num_classes), jnp.float32)

    def loss(forward, params, state, batch, key):
        outputs, stats = joint_outputs(forward, params, state, batch, key)
        z_l, z_strong, z_weak = outputs["logits"]
        o_l, _, o_weak = outputs["open"]
        _, v_strong, _ = outputs["inliers_outliers"]

        p, queue = jax.nn.softmax(jax.lax.stop_gradient(z_weak)), state.method
        if align_batches:
            p, queue = aligned_by_queue(p, queue, state.step)
        q = open_targets(p, jax.lax.stop_gradient(o_weak))
        inlier = q[:, num_classes] < _UNDECIDED
        chosen = inlier & (jnp.max(p, axis=1) >= threshold)
        sure = jnp.max(q, axis=1) >= open_threshold
        labeled = jnp.mean(cross_entropy(z_l, batch.label))
        ova = jnp.mean(one_vs_all(o_l, batch.label))
        closed = jnp.mean(chosen * soft_cross_entropy(z_strong, p))
        opened = jnp.mean(sure * soft_cross_entropy(v_strong, q))
        opened = jnp.where(state.step >= start_steps, opened, 0)

        total = labeled + ova_weight * ova + loss_weight * closed
        metrics = {
            "labeled_loss": labeled,
            "ova_loss": ova,
            "unlabeled_loss": closed,
            "open_loss": opened,
            "inliers": jnp.mean(inlier),
            "confident": jnp.mean(chosen),
        }
        return total + open_weight * opened, Aux(stats, queue, metrics)

    return Method(
        loss=loss,
        heads={
            "logits": Head(num_classes),
            "projection": Head(num_hidden, hidden=(num_hidden,)),
            "open": Head((2, num_classes), bias=False, source="projection"),
            "inliers_outliers": Head(num_classes + 1, source="projection"),
        },
        init=init,
        views=("strong", "weak"),
        labeled_views=("weak",),
    )
