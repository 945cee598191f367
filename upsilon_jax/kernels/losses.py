"""Losses and weighted means; every reduction defines its empty case."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax


def cross_entropy(logits: jax.Array, label: jax.Array) -> jax.Array:
    """CE(z, y) = logsumexp(z) - z_y for every row.

    Args:
      logits: [M, T].
      label: [M] int in [0, T). A negative label stands for "none": it gives the finite
        loss of class 0, for the caller to weigh by 0.

    Returns:
      [M] losses.
    """
    return optax.softmax_cross_entropy_with_integer_labels(
        logits, jnp.maximum(label, 0)
    )


def confident_cross_entropy(
    logits: jax.Array, teacher: jax.Array, num_classes: int, threshold: float
) -> tuple[jax.Array, jax.Array]:
    """What a confident view of an image teaches another view of it (FixMatch).

        q = softmax(teacher) [M, T], no gradient;  ŷ = argmax_{y<C} q_y,  c = q_ŷ

    Args:
      logits: [M, T] z of the view that learns.
      teacher: [M, T] logits of the other view.
      num_classes: C.
      threshold: τ.

    Returns:
      [M] 1[c ≥ τ] CE(z, ŷ), and [M] 1[c ≥ τ] as numbers.
    """
    q = jax.nn.softmax(jax.lax.stop_gradient(teacher))[:, :num_classes]
    confident = (jnp.max(q, axis=1) >= threshold).astype(q.dtype)
    return confident * cross_entropy(logits, jnp.argmax(q, axis=1)), confident


def soft_cross_entropy(logits: jax.Array, target: jax.Array) -> jax.Array:
    """-Σ_c q_c log softmax(z)_c for logits z and targets q, [M, T] -> [M]."""
    return -jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)


def squared_error(prob: jax.Array, target: jax.Array) -> jax.Array:
    """mean_c (p_c - q_c)² for two distributions, [M, C] -> [M], at most 2/C."""
    return jnp.mean((prob - target) ** 2, axis=-1)


def kl_divergence(logits_p: jax.Array, logits_q: jax.Array) -> jax.Array:
    """KL(softmax(a) ‖ softmax(b)) from logits a and b, [M, T] -> [M]."""
    log_p, log_q = jax.nn.log_softmax(logits_p), jax.nn.log_softmax(logits_q)
    return jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=-1)


def entropy(prob: jax.Array) -> jax.Array:
    """-Σ p log p over the last axis, with 0 log 0 = 0."""
    return jnp.sum(jax.scipy.special.entr(prob), axis=-1)


def one_vs_all(logits: jax.Array, label: jax.Array) -> jax.Array:
    """The loss of C detectors, each a two-way softmax p (OpenMatch, Eq. 1).

        -log p(is y) - min_{j≠y} log p(is not j)

    Only the hardest negative counts; ties go to the lowest class, so that one detector
    gets the gradient. With C = 1 there is no negative and the second term is 0.

    Args:
      logits: [B, 2, C]; entry 1 of the middle axis is "is class j", 0 "is not".
      label: [B] int in [0, C).

    Returns:
      [B] losses.
    """
    loss = -jax.nn.log_softmax(logits, axis=1)
    num_classes = logits.shape[-1]
    at = lambda values, j: jnp.take_along_axis(values, j[:, None], axis=1)[:, 0]
    positive = at(loss[:, 1], label)
    if num_classes == 1:
        return positive
    own = jnp.arange(num_classes)[None, :] == label[:, None]
    hardest = jnp.argmax(jnp.where(own, -jnp.inf, loss[:, 0]), axis=1)
    return positive + at(loss[:, 0], hardest)


def detector_entropy(logits: jax.Array) -> jax.Array:
    """Mean over classes of the two-way entropies, [B, 2, C] -> [B] (OpenMatch)."""
    log_p = jax.nn.log_softmax(logits, axis=1)
    return -jnp.mean(jnp.sum(jnp.exp(log_p) * log_p, axis=1), axis=-1)


def detector_consistency(logits_a: jax.Array, logits_b: jax.Array) -> jax.Array:
    """Σ over 2 and C of (p_a - p_b)², [B, 2, C] -> [B], at most 2C (OpenMatch)."""
    p_a, p_b = jax.nn.softmax(logits_a, axis=1), jax.nn.softmax(logits_b, axis=1)
    return jnp.sum((p_a - p_b) ** 2, axis=(1, 2))


def pair_loss(logits_a: jax.Array, logits_b: jax.Array) -> jax.Array:
    """-log <softmax(a), softmax(b)>, [M, T] -> [M] (ORCA).

    In the log domain, so that a product that underflows has a loss and a gradient.
    """
    joint = jax.nn.log_softmax(logits_a) + jax.nn.log_softmax(logits_b)
    return -jax.nn.logsumexp(joint, axis=-1)


def weighted_mean(values: jax.Array, weight: jax.Array) -> jax.Array:
    """Σ w v / Σ w over [M], and 0 with a zero gradient where all weights are 0."""
    total = jnp.sum(weight)
    return jnp.sum(weight * values) / jnp.where(total > 0, total, 1)


def sigmoid_ramp(step: jax.Array, ramp_steps: int) -> jax.Array:
    """λ(t) = exp(-5 (1 - min(t / ramp_steps, 1))²), and 1 throughout for 0 steps."""
    if ramp_steps == 0:
        return jnp.ones((), jnp.float32)
    progress = jnp.clip(step.astype(jnp.float32) / ramp_steps, 0, 1)
    return jnp.exp(-5 * (1 - progress) ** 2)


def linear_ramp(step: jax.Array, ramp_steps: int) -> jax.Array:
    """λ(t) = min(t / ramp_steps, 1), and 1 throughout for 0 steps."""
    if ramp_steps == 0:
        return jnp.ones((), jnp.float32)
    return jnp.clip(step.astype(jnp.float32) / ramp_steps, 0, 1)
