"""FreeMatch (Wang et al. 2023)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import cross_entropy
from upsilon_jax.kernels.targets import moving_average
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_pass
from upsilon_jax.methods.selection import outside_clusters, row_losses
from upsilon_jax.types import Aux, Head

_LEAST_SHARE = 1e-6


class Thresholds(NamedTuple):
    """How sure the network is on weak views, averaged over steps; float32."""

    confidence: jax.Array  # [] τ, of the largest probability
    share: jax.Array  # [C] p̃, the mean prediction
    histogram: jax.Array  # [C] h̃, how often a class is the largest; sums to 1


def updated(
    state: Thresholds, known: jax.Array, step: jax.Array, decay: float
) -> Thresholds:
    """Each average ← d · average + (1 - d) · that of a batch q [M, C]."""
    largest = jax.nn.one_hot(jnp.argmax(known, axis=1), known.shape[1])
    now = Thresholds(
        confidence=jnp.mean(jnp.max(known, axis=1)),
        share=jnp.mean(known, axis=0),
        histogram=jnp.mean(largest, axis=0),
    )
    return moving_average(state, now, step, decay, warm_up=False)


def confident_rows(state: Thresholds, known: jax.Array) -> jax.Array:
    """[M] 1[c ≥ τ p̃_ŷ / max p̃], where c is the largest of [M, C] and ŷ its class."""
    threshold = state.confidence * state.share / jnp.max(state.share)
    enough = jnp.max(known, axis=1) >= threshold[jnp.argmax(known, axis=1)]
    return enough.astype(known.dtype)


def fairness(prob: jax.Array, weight: jax.Array, state: Thresholds) -> jax.Array:
    """L_f = Σ_c a_c log b_c, minus the cross-entropy of a and b.

        a = norm(p̃ / h̃);   b = norm(p̄ / h̄), p̄ and h̄ the mean and the histogram of the
        largest of the rows that count

    The sign is the published one: as L_f falls, b moves away from a. Classes that no
    row predicts are left out (in the authors' code they add a constant without
    gradient); without any row it is 0.

    Args:
      prob: [M, C] of strong views.
      weight: [M] 1 for rows that count, else 0.
      state: p̃ and h̃; no gradient goes into them.
    """
    count = jnp.maximum(jnp.sum(weight), 1)
    mean = weight @ prob / count
    largest = jax.nn.one_hot(jnp.argmax(prob, axis=1), prob.shape[1])
    histogram = weight @ largest.astype(prob.dtype) / count
    seen = histogram > 0
    ratio = jnp.where(seen, mean, 0) / jnp.where(seen, histogram, 1)
    total = jnp.sum(ratio)
    log_b = jnp.log(jnp.where(seen, ratio / jnp.where(total > 0, total, 1), 1))
    # A class that nothing is taken for has a share of 0 after many steps.
    target = state.share / jnp.maximum(state.histogram, _LEAST_SHARE)
    return jnp.sum(target / jnp.sum(target) * log_b)


def freematch(
    num_classes: int,
    num_clusters: int = 0,
    *,
    decay: float = 0.999,
    fairness_weight: float = 0.001,
    loss_weight: float = 1.0,
) -> Method:
    """FixMatch with thresholds that grow with the network, one for each class.

        q = softmax(z(weak)) [M, T], no gradient;   ŷ = argmax_{y<C} q_y,   c = q_ŷ
        m_i = 1[c_i ≥ τ p̃_ŷ / max_k p̃_k]
        L = mean CE(z_l, y_l) + λ_u · (1/M) Σ_i m_i CE(z(strong_i), ŷ_i) + w_f L_f

    τ, p̃ and h̃ are averages over steps that take the batch in first (`updated`): all
    rows enter them, whatever P says. τ and p̃ start at a guess, 1/T. L_f is `fairness`
    of the strong views that count, in a composed method those that P keeps. Labeled,
    strong and weak rows pass in one forward, which updates BatchNorm.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      decay: d, of the averages.
      fairness_weight: w_f.
      loss_weight: λ_u.
    """

    def init(key, params, num_unlabeled, hidden=None):
        guess = 1 / (num_classes + num_clusters)
        return Thresholds(
            confidence=jnp.full((), guess, jnp.float32),
            share=jnp.full(num_classes, guess, jnp.float32),
            histogram=jnp.full(num_classes, 1 / num_classes, jnp.float32),
        )

    def loss(forward, params, state, batch, key):
        labeled, (z_strong, z_weak), stats = joint_pass(
            forward, params, state, batch, key, num_views=2
        )
        known = jax.nn.softmax(jax.lax.stop_gradient(z_weak))[:, :num_classes]
        averages = updated(state.method, known, state.step, decay)
        confident = confident_rows(averages, known)
        per_row = confident * cross_entropy(z_strong, jnp.argmax(known, axis=1))
        unlabeled = jnp.mean(row_losses(per_row, z_strong, batch.pseudo, num_classes))
        counts = outside_clusters(confident, batch.pseudo, num_classes)
        fair = fairness(jax.nn.softmax(z_strong)[:, :num_classes], counts, averages)

        metrics = {
            "labeled_loss": labeled,
            "unlabeled_loss": unlabeled,
            "fairness_loss": fair,
            "confident": jnp.mean(confident),
            "threshold": averages.confidence,
        }
        total = labeled + loss_weight * unlabeled + fairness_weight * fair
        return total, Aux(stats, averages, metrics)

    return Method(
        loss=loss,
        heads={"logits": Head(num_classes + num_clusters)},
        init=init,
        views=("strong", "weak"),
        labeled_views=("weak",),
    )
