"""UASD, uncertainty-aware self-distillation (Chen et al. 2020)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import sigmoid_ramp, soft_cross_entropy, weighted_mean
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_pass
from upsilon_jax.methods.selection import rows_and_weights
from upsilon_jax.types import Aux, Head


class Bank(NamedTuple):
    """All past predictions, and the confidence that tells ID from OOD."""

    total: jax.Array  # [N, T] float32, sum of softmax outputs; a row sums to its visits
    threshold: jax.Array  # [] float32, τ
    refreshes: jax.Array  # [] int32, how many are averaged in τ


def past_predictions(bank: Bank, index: jax.Array) -> tuple[jax.Array, jax.Array]:
    """q_i = S_i / visits_i [M, T], 0 without a visit, and the visits [M]."""
    total = bank.total[index]
    visits = jnp.sum(total, axis=1)
    return total / jnp.maximum(visits, 1)[:, None], visits


def with_threshold(bank: Bank, logits: jax.Array, num_classes: int) -> Bank:
    """τ ← mean over refreshes of mean_i max_{c<C} f_ic, i a validation image.

    Args:
      bank: as the last refresh left it.
      logits: [num_valid, T]; without a row τ stays as it is.
      num_classes: C.
    """
    if logits.shape[0] == 0:
        return bank
    prob = jax.nn.softmax(logits)[:, :num_classes]
    confidence = jnp.mean(jnp.max(prob, axis=1))
    k = bank.refreshes.astype(jnp.float32)
    threshold = (k * bank.threshold + confidence) / (k + 1)
    return bank._replace(
        threshold=threshold.astype(bank.threshold.dtype), refreshes=bank.refreshes + 1
    )


def uasd(
    num_classes: int,
    num_clusters: int = 0,
    *,
    initial_threshold: float = 0.9,
    loss_weight: float = 1.0,
    start_steps: int = 12_560,
    ramp_steps: int = 25_120,
) -> Method:
    """Distils the average of an image's past predictions, if that is confident.

        q_i = S_i / visits_i [T];   keep_i = 1[max_{c<C} q_ic ≥ τ]
        L = mean CE(z_l, y_l) + w(t) · Σ keep_i CE(z_i, q_i) / Σ keep_i
        S_i ← S_i + softmax(z_i)                         after the step; a sum, no decay

    with w = 0 before t₀.

    One forward over labeled and unlabeled rows updates BatchNorm and gives the
    predictions that enter S. An image without a visit is not kept; no image kept gives
    no loss. In a composed method `keep` is weighed by P, and a row with a cluster joins
    the mean with the CE of z_i to it.

    τ is the mean confidence on the validation images. Differs from the authors' code:
    there, validation images pass through the training forward (a leak into BatchNorm)
    and have a row in S; here they are predicted at every refresh with the running
    statistics, and τ is the mean over refreshes of mean max_{c<C} f_c. Averaging
    confidences instead of predictions can only make τ larger (Jensen). Without
    validation images τ stays at `initial_threshold` [inferred]. Labeled images have no
    row in S either: their target is their label.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      initial_threshold: τ before the first refresh.
      loss_weight: w after the ramp.
      start_steps: t₀; 20 % of training.
      ramp_steps: end of the ramp, counted from step 0; 40 % of training. Both defaults
        are those of 400 epochs of 157 steps.
    """

    def init(key, params, num_unlabeled, hidden=None):
        return Bank(
            total=jnp.zeros((num_unlabeled, num_classes + num_clusters), jnp.float32),
            threshold=jnp.asarray(initial_threshold, jnp.float32),
            refreshes=jnp.zeros((), jnp.int32),
        )

    def loss(forward, params, state, batch, key):
        labeled, (z_u,), stats = joint_pass(forward, params, state, batch, key)
        bank = state.method
        q, visits = past_predictions(bank, batch.index)
        confidence = jnp.max(q[:, :num_classes], axis=1)
        keep = ((confidence >= bank.threshold) & (visits > 0)).astype(q.dtype)
        per_row, weight = rows_and_weights(
            soft_cross_entropy(z_u, q), keep, z_u, batch.pseudo, num_classes
        )
        unlabeled = weighted_mean(per_row, weight)

        started = state.step >= start_steps
        ramp = jnp.where(started, sigmoid_ramp(state.step, ramp_steps), 0)
        prob = jax.nn.softmax(jax.lax.stop_gradient(z_u)).astype(q.dtype)
        bank = bank._replace(total=bank.total.at[batch.index].add(prob))
        metrics = {
            "labeled_loss": labeled,
            "unlabeled_loss": unlabeled,
            "kept": jnp.mean(keep),
            "threshold": bank.threshold,
        }
        return labeled + loss_weight * ramp * unlabeled, Aux(stats, bank, metrics)

    def refresh(state, outputs, where, key):
        return with_threshold(state.method, outputs.valid["logits"], num_classes)

    return Method(
        loss=loss,
        heads={"logits": Head(num_classes + num_clusters)},
        init=init,
        refresh=refresh,
        refresh_epochs=1,
        views=("strong",),
        labeled_views=("strong",),
    )
