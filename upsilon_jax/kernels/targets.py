"""What a loss compares predictions with: sharpened guesses, mixtures, partners."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

# Smallest norm a feature vector is divided by: keeps 0/0 out.
_TINY = 1e-12
# Smallest share of a class that predictions are divided by.
_RARE = 1e-6


def sharpen(prob: jax.Array, temperature: float) -> jax.Array:
    """q_c = p_c^(1/T) / Σ_k p_k^(1/T), [M, C] -> [M, C]; T → 0 gives the argmax."""
    if not temperature > 0:
        raise ValueError(f"temperature={temperature} must be positive")
    return jax.nn.softmax(jnp.log(prob) / temperature)


def aligned(prob: jax.Array, share: jax.Array) -> jax.Array:
    """Predictions as they would be if their mean were uniform, [M, C] -> [M, C].

        u_c = s · (q_c / p̄_c) / Σ_k (q_k / p̄_k),    s = Σ_k q_k

    s is 1 unless there are more outputs than the C classes: what these have stays.

    Args:
      prob: [M, C] q.
      share: [C] p̄, their mean over many rows. Of a class that is hardly ever predicted
        it counts as 1e-6.
    """
    ratio = prob / jnp.maximum(share, _RARE)[None, :]
    total = jnp.sum(ratio, axis=1, keepdims=True)
    mass = jnp.sum(prob, axis=1, keepdims=True)
    # Where no class has any probability left, nothing is to be aligned.
    return mass * ratio / jnp.where(total > 0, total, 1)


def mixing_weights(key: jax.Array, num: int, alpha: float) -> jax.Array:
    """λ' = max(λ, 1 - λ) with λ ~ Beta(α, α), one for each of `num` rows.

    λ' ≥ 1/2 keeps a mixture nearer to its own row than to its partner's. α = 0 is the
    limit λ' = 1: no mixing.
    """
    if alpha < 0:
        raise ValueError(f"alpha={alpha} must not be negative")
    if alpha == 0:
        return jnp.ones(num, jnp.float32)
    weight = jax.random.beta(key, alpha, alpha, (num,), jnp.float32)
    return jnp.maximum(weight, 1 - weight)


def mixup(values: jax.Array, partner: jax.Array, weight: jax.Array) -> jax.Array:
    """λ_i v_i + (1 - λ_i) v_partner(i) for [M, ...] values (Zhang et al. 2018)."""
    weight = weight.reshape(weight.shape + (1,) * (values.ndim - 1))
    return weight * values + (1 - weight) * values[partner]


def shuffle(key: jax.Array, num: int, where: jax.Array | None = None) -> jax.Array:
    """A random partner for each of `num` rows, [num] int: a permutation.

    With `where` [num] only rows where it is true are partners, each of them as often as
    any other or once more; at least one must be. If it is true everywhere the result is
    the permutation.
    """
    order = jax.random.permutation(key, num)
    if where is None:
        return order
    # Those that may be drawn come first, in the order of the permutation.
    order = order[jnp.argsort(~where[order], stable=True)]
    return order[jnp.arange(num) % jnp.maximum(jnp.sum(where), 1)]


def moving_average(
    average: Any, new: Any, step: jax.Array, decay: float, warm_up: bool = True
) -> Any:
    """θ' ← d θ' + (1 - d) θ on a tree; keeps its dtypes.

    Args:
      average: θ'.
      new: θ.
      step: [] int t ≥ 0, updates made so far.
      decay: d_max.
      warm_up: takes d = min(1 - 1/(t+1), d_max), a plain mean at first, so that the
        initial average is forgotten at once; else d = d_max throughout.
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"decay={decay} is not in [0, 1]")
    t = step.astype(jnp.float32)
    d = jnp.minimum(t / (t + 1), decay) if warm_up else decay
    return jax.tree.map(
        lambda a, n: (d * a + (1 - d) * n).astype(a.dtype), average, new
    )


def same_class_partner(key: jax.Array, label: jax.Array) -> jax.Array:
    """For every row another row of its class, drawn evenly; itself if there is none.

    Args:
      key: random key.
      label: [B] int.

    Returns:
      [B] int32 rows.
    """
    rows = jnp.arange(label.shape[0], dtype=jnp.int32)
    same = label[:, None] == label[None, :]
    others = same & (rows[:, None] != rows[None, :])
    # The largest of independent equal draws is an even choice among the others.
    draw = jax.random.uniform(key, others.shape)
    chosen = jnp.argmax(jnp.where(others, draw, -1), axis=1).astype(jnp.int32)
    return jnp.where(jnp.any(others, axis=1), chosen, rows)


def nearest_other(features: jax.Array) -> jax.Array:
    """For every row of [M, F] the other row of highest cosine, [M] int32; no gradient.

    A row is left out by its index: a twin with equal features is a legal neighbour.
    """
    features = jax.lax.stop_gradient(features)
    norm = jnp.linalg.norm(features, axis=1, keepdims=True)
    unit = features / jnp.maximum(norm, _TINY)
    itself = jnp.eye(features.shape[0], dtype=bool)
    cosine = jnp.where(itself, -jnp.inf, unit @ unit.T)
    return jnp.argmax(cosine, axis=1).astype(jnp.int32)
