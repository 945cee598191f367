"""MixMatch (Berthelot et al. 2019, §3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import linear_ramp, soft_cross_entropy, squared_error
from upsilon_jax.kernels.targets import mixing_weights, mixup, sharpen, shuffle
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.selection import cluster_loss, in_cluster, outside_clusters
from upsilon_jax.types import Aux, Head


def mixmatch(
    num_classes: int,
    num_clusters: int = 0,
    *,
    temperature: float = 0.5,
    alpha: float = 0.75,
    loss_weight: float = 75.0,
    ramp_steps: int = 16_384,
) -> Method:
    """Sharpened guesses over two views u₁, u₂; everything is mixed with everything.

        q = sharpen((f(u₁) + f(u₂)) / 2, T)               [M, C + K], no gradient
        W = (x, u₁, u₂), targets (onehot(y), q, q)              B + 2M rows
        W'_i = λ_i W_i + (1 - λ_i) W_π(i),                      targets likewise
        L = mean CE over the first B rows of W'
            + w(t) · mean over the others and over outputs of (f - target)²

    π permutes labeled and unlabeled rows jointly; λ_i = max(β, 1 - β), β ~ Beta(α, α),
    one per row. The guesses use the statistics of their batch and update none. The
    mixture passes in one forward, which updates BatchNorm; the authors interleave it
    over several and let the first update. The paper names no values: α and w are the
    authors' for CIFAR-10, the linear ramp is theirs too [inferred].

    In a composed method rows of weight 0 are nobody's partner; a row with a cluster is
    one with that cluster as its target. What such a row learns itself is the CE of u₁,
    not mixed, to the cluster, with weight 1, as w is made for squared errors: one more
    forward, which updates nothing.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`).
      temperature: T.
      alpha: α; 0 turns mixing off.
      loss_weight: w after the ramp.
      ramp_steps: length of the linear ramp.
    """
    num_outputs = num_classes + num_clusters

    def loss(forward, params, state, batch, key):
        key_net, key_weight, key_partner = jax.random.split(key, 3)
        unlabeled_images = jnp.concatenate([batch.views[0], batch.views[1]])
        fixed = jax.lax.stop_gradient(params)
        guess, _ = forward(fixed, state.stats, unlabeled_images, key_net, True)
        prob = jax.nn.softmax(guess["logits"]).reshape(2, -1, num_outputs)
        q = sharpen(jnp.mean(prob, axis=0), temperature)
        q = _with_clusters(q, batch.pseudo, num_classes)

        images = jnp.concatenate([batch.image[0], unlabeled_images])
        target = jnp.concatenate(
            [jax.nn.one_hot(batch.label, num_outputs, dtype=q.dtype), q, q]
        )
        weight = mixing_weights(key_weight, images.shape[0], alpha)
        partner = shuffle(key_partner, images.shape[0], _may_be_partner(batch))
        images = mixup(images, partner, weight)
        target = mixup(target, partner, weight)

        outputs, stats = forward(params, state.stats, images, key_net, True)
        num_labeled = batch.label.shape[0]
        z_l, z_u = jnp.split(outputs["logits"], [num_labeled])
        labeled = jnp.mean(soft_cross_entropy(z_l, target[:num_labeled]))
        errors = squared_error(jax.nn.softmax(z_u), target[num_labeled:])
        of_both_views = jax.tree.map(lambda x: jnp.tile(x, 2), batch.pseudo)
        unlabeled = jnp.mean(outside_clusters(errors, of_both_views, num_classes))
        total = labeled + loss_weight * linear_ramp(state.step, ramp_steps) * unlabeled
        if num_clusters and batch.pseudo is not None:
            clean, _ = forward(params, state.stats, batch.views[0], key_net, True)
            clusters = cluster_loss(clean["logits"], batch.pseudo, num_classes)
            total, unlabeled = total + clusters, unlabeled + clusters
        metrics = {"labeled_loss": labeled, "unlabeled_loss": unlabeled}
        return total, Aux(stats, state.method, metrics)

    return Method(
        loss=loss,
        heads={"logits": Head(num_outputs)},
        views=("strong", "strong"),
        labeled_views=("strong",),
    )


def _with_clusters(q, pseudo, num_classes):
    """The guesses [M, T]; in S the cluster, as a one-hot row."""
    if pseudo is None:
        return q
    clusters = jax.nn.one_hot(pseudo.label, q.shape[1], dtype=q.dtype)
    return jnp.where(in_cluster(pseudo, num_classes)[:, None], clusters, q)


def _may_be_partner(batch):
    """[B + 2M] bool: labeled rows, and rows of weight > 0; None if all may be."""
    if batch.pseudo is None:
        return None
    chosen = batch.pseudo.weight > 0
    return jnp.concatenate([jnp.ones(batch.label.shape, bool), chosen, chosen])
