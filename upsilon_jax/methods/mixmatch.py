"""MixMatch (Berthelot et al. 2019, §3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import linear_ramp, soft_cross_entropy, squared_error
from upsilon_jax.kernels.targets import mixing_weights, mixup, sharpen
from upsilon_jax.methods.base import Method
from upsilon_jax.types import Aux, Head


def mixmatch(
    num_classes: int,
    *,
    temperature: float = 0.5,
    alpha: float = 0.75,
    loss_weight: float = 75.0,
    ramp_steps: int = 16_384,
) -> Method:
    """Sharpened guesses over two views u₁, u₂; everything is mixed with everything.

        q = sharpen((f(u₁) + f(u₂)) / 2, T)                     [M, C], no gradient
        W = (x, u₁, u₂), targets (onehot(y), q, q)              B + 2M rows
        W'_i = λ_i W_i + (1 - λ_i) W_π(i),                      targets likewise
        L = mean CE over the first B rows of W'
            + w(t) · mean over the others and over classes of (f - target)²

    π permutes labeled and unlabeled rows jointly; λ_i = max(β, 1 - β), β ~ Beta(α, α),
    one per row. The guesses use the statistics of their batch and update none. The
    mixture passes in one forward, which updates BatchNorm; the authors interleave it
    over several and let the first update. The paper names no values: α and w are the
    authors' for CIFAR-10, the linear ramp is theirs too [inferred].

    Args:
      num_classes: C.
      temperature: T.
      alpha: α; 0 turns mixing off.
      loss_weight: w after the ramp.
      ramp_steps: length of the linear ramp.
    """

    def loss(forward, params, state, batch, key):
        key_net, key_weight, key_partner = jax.random.split(key, 3)
        unlabeled_images = jnp.concatenate([batch.views[0], batch.views[1]])
        fixed = jax.lax.stop_gradient(params)
        guess, _ = forward(fixed, state.stats, unlabeled_images, key_net, True)
        prob = jax.nn.softmax(guess["logits"]).reshape(2, -1, num_classes)
        q = sharpen(jnp.mean(prob, axis=0), temperature)

        images = jnp.concatenate([batch.image[0], unlabeled_images])
        target = jnp.concatenate(
            [jax.nn.one_hot(batch.label, num_classes, dtype=q.dtype), q, q]
        )
        weight = mixing_weights(key_weight, images.shape[0], alpha)
        partner = jax.random.permutation(key_partner, images.shape[0])
        images = mixup(images, partner, weight)
        target = mixup(target, partner, weight)

        outputs, stats = forward(params, state.stats, images, key_net, True)
        num_labeled = batch.label.shape[0]
        z_l, z_u = jnp.split(outputs["logits"], [num_labeled])
        labeled = jnp.mean(soft_cross_entropy(z_l, target[:num_labeled]))
        errors = squared_error(jax.nn.softmax(z_u), target[num_labeled:])
        unlabeled = jnp.mean(errors)

        total = labeled + loss_weight * linear_ramp(state.step, ramp_steps) * unlabeled
        metrics = {"labeled_loss": labeled, "unlabeled_loss": unlabeled}
        return total, Aux(stats, state.method, metrics)

    return Method(
        loss=loss,
        heads={"logits": Head(num_classes)},
        views=("strong", "strong"),
        labeled_views=("strong",),
    )
