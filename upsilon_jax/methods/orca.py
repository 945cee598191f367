"""ORCA, open-world semi-supervised learning (Cao et al. 2022)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import (
    cross_entropy,
    entropy,
    pair_loss,
    weighted_mean,
)
from upsilon_jax.kernels.targets import nearest_other, same_class_partner
from upsilon_jax.methods.base import Method
from upsilon_jax.types import Aux, Head

# The scale of a cosine head's outputs; margins are in units of the cosine.
_SCALE = 10.0


def orca(
    num_classes: int,
    *,
    num_ood_classes: int,
    max_margin: float = 0.5,
    pair_weight: float = 1.0,
    entropy_weight: float = 1.0,
) -> Method:
    """Classifies C known classes and clusters the rest on T = C + num_ood outputs.

    The head is z_j = 10 · <h/|h|, W_j/|W_j|>. With P and P' [R, T] the softmaxes of two
    views of the R = B + M rows,

        L = L_s + L_p - H(mean_i P_i)
        L_s  mean over labeled rows of CE after adding 10 m to the true class's logit
        L_p  mean_i -log <P_i, P'_pair(i)>; both sides have gradient

    pair(i) of a labeled row is a random other labeled row of its class (itself if
    alone), of an unlabeled row its nearest neighbour by the cosine of the features of
    the first view among all other rows. The margin m makes the labeled task easier
    while the network is unsure of D_u: m = min(max_margin, 1 - mean max_k f_k) over D_u
    with the running statistics, at every refresh; `max_margin` until the first
    [inferred]. The first view's forward updates BatchNorm, the second's does not.

    Trained from scratch with nothing frozen [inferred]: the authors start from a
    SimCLR-pretrained ResNet, which the paper's WRN-28-2 rules out.

    Args:
      num_classes: C.
      num_ood_classes: number of novel classes, taken as known.
      max_margin: upper bound of m.
      pair_weight: of L_p.
      entropy_weight: of the entropy of the mean prediction.
    """
    if num_ood_classes < 0:
        raise ValueError(f"num_ood_classes={num_ood_classes} must not be negative")
    num_outputs = num_classes + num_ood_classes

    def init(key, params, num_unlabeled, hidden=None):
        return jnp.asarray(max_margin, jnp.float32)

    def loss(forward, params, state, batch, key):
        key_a, key_b, key_pair = jax.random.split(key, 3)
        first = jnp.concatenate([batch.image[0], batch.views[0]])
        second = jnp.concatenate([batch.image[1], batch.views[1]])
        outputs, stats = forward(params, state.stats, first, key_a, True)
        other, _ = forward(params, state.stats, second, key_b, True)
        z, z_other = outputs["logits"], other["logits"]

        num_labeled = batch.label.shape[0]
        true_class = jax.nn.one_hot(batch.label, num_outputs, dtype=z.dtype)
        eased = z[:num_labeled] + _SCALE * state.method * true_class
        labeled = jnp.mean(cross_entropy(eased, batch.label))

        partner = same_class_partner(key_pair, batch.label)
        neighbor = nearest_other(outputs["features"])[num_labeled:]
        pair = jnp.concatenate([partner, neighbor])
        pairwise = jnp.mean(pair_loss(z, z_other[pair]))
        spread = entropy(jnp.mean(jax.nn.softmax(z), axis=0))

        metrics = {
            "labeled_loss": labeled,
            "pair_loss": pairwise,
            "entropy": spread,
            "margin": state.method,
        }
        total = labeled + pair_weight * pairwise - entropy_weight * spread
        return total, Aux(stats, state.method, metrics)

    def refresh(state, outputs, where, key):
        confidence = jnp.max(jax.nn.softmax(outputs.unlabeled["logits"]), axis=1)
        mean = weighted_mean(confidence, where.astype(confidence.dtype))
        return jnp.minimum(max_margin, 1 - mean).astype(state.method.dtype)

    return Method(
        loss=loss,
        heads={"logits": Head(num_outputs, kind="cosine", bias=False)},
        init=init,
        refresh=refresh,
        refresh_epochs=1,
        views=("strong", "strong"),
        labeled_views=("strong", "strong"),
    )
