"""What all methods have in common whose state is P, a `PseudoLabels`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import cross_entropy, sigmoid_ramp, weighted_mean
from upsilon_jax.methods.base import Method, whole_state
from upsilon_jax.methods.baseline import joint_pass
from upsilon_jax.methods.selection import none_selected, rows_and_weights, rows_of
from upsilon_jax.types import Aux, Head

NORMALIZE = ("unlabeled", "selected")
PSEUDO_BATCHES = ("selected", "masked")


def pseudo_label_method(
    num_classes: int,
    num_clusters: int = 0,
    *,
    refresh: Callable | None,
    labeler: str = "live",
    **loss: Any,
) -> Method:
    """A method that trains on the labels of P and renews P at each refresh.

    Args:
      num_classes: C.
      num_clusters: K.
      refresh: makes P, as `Method.refresh`; None keeps the first one.
      labeler: `Method.refresh_with`.
      **loss: keywords of `pseudo_label_loss`.
    """
    return Method(
        loss=pseudo_label_loss(num_classes, **loss),
        heads={"logits": Head(num_classes + num_clusters)},
        init=none_selected,
        refresh=refresh,
        refresh_with=labeler,
        views=("strong",),
        labeled_views=("strong",),
        selection=whole_state,
        trains_on_selection=True,
    )


def pseudo_label_loss(
    num_classes: int,
    *,
    loss_weight: float = 1.0,
    ramp_steps: int = 0,
    start_steps: int = 0,
    normalize: str = "unlabeled",
    pseudo_batches: str = "selected",
) -> Callable:
    """L = mean CE(z_l, y_l) + λ(t) · L_u over M unlabeled rows with weights w_i.

        normalize      batches drawn from all of D_u      batches drawn from P
        "unlabeled"    Σ w_i CE_i / M                     s · mean(w_i CE_i)
        "selected"     Σ w_i CE_i / #{i: w_i > 0}         mean(w_i CE_i)

    with s = |P| / |D_u|. The two entries of a row have the same expectation (the
    second row up to the ratio estimate), so "selected" batches spend no computation on
    images that carry no loss and leave the objective as it is.

    Args:
      num_classes: C.
      loss_weight: λ after the ramp.
      ramp_steps: length of the ramp λ(t), 0 for none.
      start_steps: the step from which the ramp counts.
      normalize: "unlabeled" or "selected".
      pseudo_batches: "masked" for batches drawn from all of D_u, "selected" from P.

    Returns:
      A `Method.loss`. One forward over labeled and unlabeled rows updates BatchNorm.
    """
    if normalize not in NORMALIZE:
        raise ValueError(f"normalize={normalize!r}: not one of {NORMALIZE}")
    if pseudo_batches not in PSEUDO_BATCHES:
        raise ValueError(f"pseudo_batches={pseudo_batches!r}: not in {PSEUDO_BATCHES}")

    def loss(forward, params, state, batch, key):
        labeled, (z_u,), stats = joint_pass(forward, params, state, batch, key)
        label, weight = rows_of(state.method, batch.index)
        per_row, weight = rows_and_weights(
            cross_entropy(z_u, label), weight, z_u, batch.pseudo, num_classes
        )
        unlabeled = normalized(weight, per_row, state.method.weight > 0)

        ramp = sigmoid_ramp(state.step - start_steps, ramp_steps)
        total = labeled + loss_weight * ramp * unlabeled
        metrics = {"labeled_loss": labeled, "unlabeled_loss": unlabeled}
        return total, Aux(stats, state.method, metrics)

    def normalized(weight, per_row, selected) -> jax.Array:
        if normalize == "selected":
            # Weights other than 0 and 1 (re-weighting) must not cancel out.
            chosen = (weight > 0).astype(weight.dtype)
            return weighted_mean(weight * per_row, chosen)
        scale = jnp.mean(selected, dtype=weight.dtype)
        return (scale if pseudo_batches == "selected" else 1) * jnp.mean(
            weight * per_row
        )

    return loss
