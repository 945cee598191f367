"""The supervised baseline, and the loss that pre-training shares with it."""

from __future__ import annotations

import jax.numpy as jnp

from upsilon_jax.kernels.losses import cross_entropy
from upsilon_jax.methods.base import Method
from upsilon_jax.types import Aux, Head


def supervised_loss(forward, params, state, batch, key):
    """L = mean CE(z(x_l), y_l) over the labeled rows; z has all T outputs.

    The loss of the baseline, of every method's pre-training, and of an epoch without
    pseudo-labels. No unlabeled pixel reaches BatchNorm here.
    """
    outputs, stats = forward(params, state.stats, batch.image[0], key, True)
    loss = jnp.mean(cross_entropy(outputs["logits"], batch.label))
    return loss, Aux(stats, state.method, {"labeled_loss": loss})


def baseline(num_classes: int) -> Method:
    """Training on D_l only (paper §3.2, "Baseline"): the floor for everything else."""
    return Method(
        loss=supervised_loss,
        heads={"logits": Head(num_classes)},
        views=(),
        labeled_views=("strong",),
    )
