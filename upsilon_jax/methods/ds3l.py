"""DS3L, safe semi-supervised learning by bilevel optimisation (Guo et al. 2020)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from upsilon_jax.kernels.bilevel import meta_gradient
from upsilon_jax.kernels.losses import cross_entropy, sigmoid_ramp, weighted_mean
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_pass, supervised_loss
from upsilon_jax.methods.selection import cluster_loss, outside_clusters
from upsilon_jax.types import Aux, Head


class WeightNet(NamedTuple):
    """The parameters α of the weight net, and their optimizer."""

    params: dict[str, jax.Array]
    opt: Any


def sample_weight(alpha: dict[str, jax.Array], prob: jax.Array) -> jax.Array:
    """w(x; α) = sigmoid(W₂ relu(W₁ f(x) + b₁) + b₂) in (0, 1), [M, T] -> [M]."""
    hidden = jax.nn.relu(prob @ alpha["kernel_1"] + alpha["bias_1"][None, :])
    return jax.nn.sigmoid(hidden @ alpha["kernel_2"] + alpha["bias_2"][None, :])[:, 0]


def initial_weight_net(
    key: jax.Array, num_outputs: int, num_hidden: int
) -> dict[str, jax.Array]:
    """α: matrices by Glorot's normal rule [inferred], biases 0."""
    key_1, key_2 = jax.random.split(key)
    glorot = jax.nn.initializers.glorot_normal(dtype=jnp.float32)
    return {
        "kernel_1": glorot(key_1, (num_outputs, num_hidden)),
        "bias_1": jnp.zeros(num_hidden, jnp.float32),
        "kernel_2": glorot(key_2, (num_hidden, 1)),
        "bias_2": jnp.zeros(1, jnp.float32),
    }


def _pseudo_label_rows(logits, known, threshold):
    """u_i and 1[max_{y<C} f(y|x_i) > τ], [M] each, from z [M, T] and f [M, C]."""
    confident = (jnp.max(known, axis=1) > threshold).astype(known.dtype)
    return confident * cross_entropy(logits, jnp.argmax(known, axis=1)), confident


def ds3l(
    num_classes: int,
    num_clusters: int = 0,
    *,
    threshold: float = 0.95,
    meta_learning_rate: float = 1e-3,
    weight_learning_rate: float = 6e-5,
    num_hidden: int = 100,
    loss_weight: float = 1.0,
    ramp_steps: int = 25_120,
) -> Method:
    """Learns a weight per unlabeled image such that a step helps the labeled loss.

        u_i = 1[max_{y<C} f(y|x_i) > τ] CE(z_i, argmax_{y<C} f(y|x_i))     PL
        ℓ(θ, α) = mean CE(z_l, y_l) + γ(t) · Σ w_i u_i / Σ w_i,   w_i = w(f(x_i); α)
        adapt:  θ̂ = θ - η ∇_θ ℓ(θ, α)                             plain SGD, graph kept
                α ← Adam step on mean CE(net_θ̂(x_l), y_l)         the same labeled rows
        loss:   ℓ(θ, α) with w without gradient

    Σ w runs over all M rows. As published, f(x_i) at the weight net's input keeps its
    gradient in the inner step. Only the forward pass of `loss` updates BatchNorm. PL as
    the base is the paper's choice (§5.2); its weight 1, τ and the ramp are [inferred].

    In a composed method P multiplies w_i, in `adapt` too. The CE to clusters is a mean
    of its own over M rows, times γ(t), and no part of the inner step: α decides about
    u only.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      threshold: τ.
      meta_learning_rate: η.
      weight_learning_rate: of α.
      num_hidden: hidden units of the weight net.
      loss_weight: γ after the ramp.
      ramp_steps: 40 % of training; the default is that of 400 epochs of 157 steps.
    """
    optimizer = optax.adam(weight_learning_rate)

    def init(key, params, num_unlabeled, hidden=None):
        alpha = initial_weight_net(key, num_classes + num_clusters, num_hidden)
        return WeightNet(alpha, optimizer.init(alpha))

    def objective(forward, params, state, batch, key, weigh, *, inner):
        labeled, (z_u,), stats = joint_pass(forward, params, state, batch, key)
        prob = jax.nn.softmax(z_u)
        per_row, confident = _pseudo_label_rows(z_u, prob[:, :num_classes], threshold)
        weight = outside_clusters(weigh(prob), batch.pseudo, num_classes)
        unlabeled = weighted_mean(per_row, weight)
        if not inner:
            unlabeled += cluster_loss(z_u, batch.pseudo, num_classes)
        total = labeled + loss_weight * sigmoid_ramp(state.step, ramp_steps) * unlabeled
        metrics = {
            "labeled_loss": labeled,
            "unlabeled_loss": unlabeled,
            "confident": jnp.mean(confident),
            "weight": jnp.mean(weight),
        }
        return total, Aux(stats, state.method, metrics)

    def adapt(forward, state, batch, key):
        alpha, opt = state.method

        def inner(params, alpha):
            weigh = lambda prob: sample_weight(alpha, prob)
            return objective(forward, params, state, batch, key, weigh, inner=True)[0]

        outer = lambda params: supervised_loss(forward, params, state, batch, key)[0]
        gradient = meta_gradient(inner, outer, state.params, alpha, meta_learning_rate)
        updates, opt = optimizer.update(gradient, opt, alpha)
        return WeightNet(optax.apply_updates(alpha, updates), opt)

    def loss(forward, params, state, batch, key):
        alpha = state.method.params
        weigh = lambda prob: jax.lax.stop_gradient(sample_weight(alpha, prob))
        return objective(forward, params, state, batch, key, weigh, inner=False)

    return Method(
        loss=loss,
        heads={"logits": Head(num_classes + num_clusters)},
        init=init,
        adapt=adapt,
        views=("strong",),
        labeled_views=("strong",),
    )
