"""SoftMatch (Chen et al. 2023)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import cross_entropy
from upsilon_jax.kernels.targets import aligned, moving_average
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_pass
from upsilon_jax.methods.selection import row_losses
from upsilon_jax.types import Aux, Head

_TINY = 1e-12  # keeps 0/0 out where all rows are equally sure


class Confidence(NamedTuple):
    """What the network is used to on weak views, averaged over steps; float32."""

    mean: jax.Array  # [] μ, of the largest aligned probability
    variance: jax.Array  # [] σ²
    share: jax.Array  # [C] p̄, the mean prediction; 0 before the first step


def updated(
    state: Confidence, known: jax.Array, step: jax.Array, decay: float
) -> tuple[Confidence, jax.Array]:
    """Takes a batch into the averages.

        p̄ ← d p̄ + (1 - d) mean_i q_i, at first mean_i q_i;   u_i = `aligned`(q_i, p̄)
        μ ← d μ + (1 - d) mean_i max u_i,   σ² likewise, with the unbiased variance

    Args:
      state: the averages.
      known: [M, C] q, probabilities of the classes.
      step: [] of the run.
      decay: d.

    Returns:
      The new averages, and [M] max u_i.
    """
    share = jnp.mean(known, axis=0).astype(state.share.dtype)
    average = moving_average(state.share, share, step, decay, warm_up=False)
    average = jnp.where(jnp.any(state.share > 0), average, share)
    largest = jnp.max(aligned(known, average), axis=1)
    moments = jnp.mean(largest), jnp.var(largest, ddof=min(1, len(largest) - 1))
    mean, variance = moving_average(state[:2], moments, step, decay, warm_up=False)
    return Confidence(mean, variance, average), largest


def truncated_gaussian(
    largest: jax.Array, state: Confidence, num_sigmas: float
) -> jax.Array:
    """[M] weights exp(-min(c - μ, 0)² n² / (2 σ²)): 1 from μ on."""
    short = jnp.minimum(largest - state.mean, 0)
    return jnp.exp(-(short**2) * num_sigmas**2 / jnp.maximum(2 * state.variance, _TINY))


def softmatch(
    num_classes: int,
    num_clusters: int = 0,
    *,
    num_sigmas: float = 2.0,
    decay: float = 0.999,
    loss_weight: float = 1.0,
) -> Method:
    """FixMatch with a weight in place of the threshold: unsure images count less.

        q = softmax(z(weak)) [M, T], no gradient;   ŷ = argmax_{y<C} q_y
        L = mean CE(z_l, y_l) + λ_u · (1/M) Σ_i w(max u_i) CE(z(strong_i), ŷ_i)

    u is q over the C classes, aligned to a uniform mean; it decides about the weight w
    (`truncated_gaussian`), not about the label ŷ. The averages μ, σ² and p̄ take the
    batch in first (`updated`); μ starts at that of a guess, 1/T, and σ² at 1. All rows
    enter them, whatever P says of a row. Labeled, strong and weak rows pass in one
    forward, which updates BatchNorm.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      num_sigmas: n; w falls n times as fast as a bell of width σ. n → ∞ is FixMatch
        with τ = μ.
      decay: d, of the averages.
      loss_weight: λ_u.
    """

    def init(key, params, num_unlabeled, hidden=None):
        return Confidence(
            mean=jnp.full((), 1 / (num_classes + num_clusters), jnp.float32),
            variance=jnp.ones((), jnp.float32),
            share=jnp.zeros(num_classes, jnp.float32),
        )

    def loss(forward, params, state, batch, key):
        labeled, (z_strong, z_weak), stats = joint_pass(
            forward, params, state, batch, key, num_views=2
        )
        known = jax.nn.softmax(jax.lax.stop_gradient(z_weak))[:, :num_classes]
        averages, largest = updated(state.method, known, state.step, decay)
        weight = truncated_gaussian(largest, averages, num_sigmas)
        per_row = weight * cross_entropy(z_strong, jnp.argmax(known, axis=1))
        unlabeled = jnp.mean(row_losses(per_row, z_strong, batch.pseudo, num_classes))

        metrics = {
            "labeled_loss": labeled,
            "unlabeled_loss": unlabeled,
            "weight": jnp.mean(weight),
            "mean_confidence": averages.mean,
        }
        return labeled + loss_weight * unlabeled, Aux(stats, averages, metrics)

    return Method(
        loss=loss,
        heads={"logits": Head(num_classes + num_clusters)},
        init=init,
        views=("strong", "weak"),
        labeled_views=("weak",),
    )
