"""DAC, disagreement of auxiliary classifiers (Kong et al. 2024)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.disagreement import agreement, mutual_information, otsu
from upsilon_jax.kernels.losses import confident_cross_entropy, cross_entropy
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_outputs
from upsilon_jax.types import Aux, Head

_TINY = 1e-8  # keeps 0/0 and log 0 out
_SIZE = 128  # of the projection


class Bank(NamedTuple):
    """What is known of each image of D_u; zeros before its first visit."""

    agreement: jax.Array  # [N] d, of the last visit
    score: jax.Array  # [N] s, scaled to 0..1 and averaged over visits
    features: jax.Array  # [N, 128], of the last visit; unit length
    target: jax.Array  # [N, C + 1], [s · p, 1 - s] of the last visit


def rescored(bank: Bank, index: jax.Array, agreed: jax.Array, decay: float) -> Bank:
    """s_i ← decay · s_i + (1 - decay) · (d_i - min d) / (max d - min d) of a batch.

    The extremes are over all images that were visited, with this batch.
    """
    known = bank.agreement.at[index].set(agreed.astype(bank.agreement.dtype))
    low = jnp.min(jnp.where(known > 0, known, jnp.inf))
    scaled = (known[index] - low) / (jnp.max(known) - low + _TINY)
    score = decay * bank.score[index] + (1 - decay) * scaled
    return bank._replace(agreement=known, score=bank.score.at[index].set(score))


def inlier_weight(score: jax.Array, index: jax.Array, power: float) -> jax.Array:
    """min((s_i / Otsu(s))^power, 1) of a batch, [N] scores -> [M]."""
    return jnp.minimum((score[index] / (otsu(score) + _TINY)) ** power, 1)


def with_foreign(logits: jax.Array, score: jax.Array) -> jax.Array:
    """[s · softmax(z), 1 - s], [M, C] and [M] -> [M, C + 1]; rows sum to 1."""
    score = score[:, None]
    return jnp.concatenate([score * jax.nn.softmax(logits), 1 - score], axis=1)


def unit(features: jax.Array) -> jax.Array:
    """[M, F] scaled to length 1."""
    square = jnp.sum(features**2, axis=1, keepdims=True)
    return features * jax.lax.rsqrt(jnp.maximum(square, _TINY))


def visited(bank: Bank, index, features, target) -> Bank:
    """With features [M, 128] and targets [M, C + 1] of the images of a batch."""
    return bank._replace(
        features=bank.features.at[index].set(features),
        target=bank.target.at[index].set(target),
    )


def neighbor_loss(features, target, bank: Bank, temperature: float) -> jax.Array:
    """mean_i CE(target_i, Σ_j r_ij target_j), r_i = softmax_j(<h_i, h_j> / t).

    j are the images that were visited; without any it is 0. [M, F], [M, C + 1] -> [].
    """
    known = jnp.any(bank.target > 0, axis=1)
    cosine = jnp.where(known[None, :], features @ bank.features.T, -2.0)
    relation = jax.nn.softmax(cosine / temperature, where=known[None, :])
    guess = jnp.maximum(relation @ bank.target, _TINY)
    loss = -jnp.mean(jnp.sum(target * jnp.log(guess), axis=1))
    return jnp.where(jnp.any(known), loss, 0)


def make_heads(num_classes: int, num_heads: int) -> dict[str, Head]:
    """The classifier, a projection for neighbors, and the auxiliary classifiers."""
    auxiliary = (num_heads, num_classes)
    return {
        "logits": Head(num_classes),
        "projection": Head(_SIZE, hidden=(_SIZE,)),
        "auxiliary": Head(auxiliary, hidden=(_SIZE, _SIZE), detach=True),
    }


def auxiliary_loss(
    g_labeled: jax.Array,
    g_strong: jax.Array,
    g_weak: jax.Array,
    label: jax.Array,
    threshold: float,
) -> jax.Array:
    """Means of CE and of FixMatch over auxiliary classifiers; [., H, C] -> []."""
    _, num_heads, num_classes = g_labeled.shape
    rows = lambda g: g.reshape(-1, num_classes)
    labeled = cross_entropy(rows(g_labeled), jnp.repeat(label, num_heads))
    strong, weak = rows(g_strong), rows(g_weak)
    per_row, _ = confident_cross_entropy(strong, weak, num_classes, threshold)
    return jnp.mean(labeled) + jnp.mean(per_row)


def dac(
    num_classes: int,
    *,
    threshold: float = 0.95,
    num_heads: int = 10,
    diversity_weight: float = 0.5,
    neighbor_weight: float = 1.5,
    loss_weight: float = 1.0,
    weight_power: float = 1.5,
    temperature: float = 0.1,
    decay: float = 0.9,
    start_steps: int = 157,
) -> Method:
    """Where many classifiers disagree an image is foreign, and counts less.

    Heads: z [., C]; g [., H, C], auxiliary classifiers on features without gradient;
    h [., 128], a projection. With weak (a) and strong (s) views of unlabeled images

        L = mean CE(z_l, y_l) + mean CE(g_l, y_l) + L_aux + λ_d I + λ_u L_fix + λ_n L_nn
        L_aux  FixMatch of each auxiliary classifier, a mean over M · H
        I      `mutual_information` of the softmaxes of g(a)
        L_fix  mean_i w_i 1[c(a_i) ≥ τ] CE(z(s_i), ŷ(a_i))
        L_nn   `neighbor_loss` of h(s), targets [s_i · softmax(z(a_i)), 1 - s_i]

    The scores s (`rescored`, from `agreement` of g(a)) and weights w (`inlier_weight`)
    have no gradient and take the batch in first. L_fix and L_nn are 0 before
    `start_steps`. All B + 2M rows pass in one forward, which updates BatchNorm.

    Differs from the authors' code: the bank of L_nn has the last visit of each image of
    D_u, theirs the last 256 batches and random features at first; the auxiliary
    classifiers have a projection of their own; features have no layer norm; a labeled
    image has one view, not two; the least agreement is that of images visited.

    Args:
      num_classes: C.
      threshold: τ, of both kinds of classifiers.
      num_heads: H.
      diversity_weight: λ_d, of a mean over pairs as in the authors' code.
      neighbor_weight: λ_n.
      loss_weight: λ_u.
      weight_power: of w.
      temperature: t.
      decay: of s.
      start_steps: when L_fix and L_nn begin; the default is an epoch of 157 steps.
    """

    def init(key, params, num_unlabeled, hidden=None):
        zeros = lambda *shape: jnp.zeros((num_unlabeled, *shape), jnp.float32)
        return Bank(zeros(), zeros(), zeros(_SIZE), zeros(num_classes + 1))

    def loss(forward, params, state, batch, key):
        outputs, stats = joint_outputs(forward, params, state, batch, key)
        z_l, z_strong, z_weak = outputs["logits"]
        auxiliary = outputs["auxiliary"]
        vote = jax.nn.softmax(auxiliary[2])
        _, h_strong, h_weak = map(unit, outputs["projection"])

        agreed = agreement(jax.lax.stop_gradient(vote))
        bank = rescored(state.method, batch.index, agreed, decay)
        weight = inlier_weight(bank.score, batch.index, weight_power)
        target = with_foreign(jax.lax.stop_gradient(z_weak), bank.score[batch.index])

        labeled = jnp.mean(cross_entropy(z_l, batch.label))
        own = auxiliary_loss(*auxiliary, batch.label, threshold)
        alike = mutual_information(vote)
        rows, sure = confident_cross_entropy(z_strong, z_weak, num_classes, threshold)
        started = state.step >= start_steps
        unlabeled = jnp.where(started, jnp.mean(weight * rows), 0)
        neighbor = neighbor_loss(h_strong, target, bank, temperature)
        neighbor = jnp.where(started, neighbor, 0)
        bank = visited(bank, batch.index, jax.lax.stop_gradient(h_weak), target)

        total = labeled + own + diversity_weight * alike
        total += loss_weight * unlabeled + neighbor_weight * neighbor
        metrics = {
            "labeled_loss": labeled,
            "auxiliary_loss": own,
            "diversity_loss": alike,
            "unlabeled_loss": unlabeled,
            "neighbor_loss": neighbor,
            "confident": jnp.mean(sure),
            "weight": jnp.mean(weight),
        }
        return total, Aux(stats, bank, metrics)

    return Method(
        loss=loss,
        heads=make_heads(num_classes, num_heads),
        init=init,
        views=("strong", "weak"),
        labeled_views=("weak",),
    )
