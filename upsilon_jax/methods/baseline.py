"""The supervised baseline, and what other methods share with it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

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


def joint_pass(forward, params, state, batch, key, num_views=1):
    """One forward over the labeled rows and the first views of the unlabeled ones.

    All these rows reach BatchNorm.

    Returns:
      The supervised loss, the logits [M, T] of every view, and the new statistics.
    """
    views = (batch.views[v] for v in range(num_views))
    images = jnp.concatenate([batch.image[0], *views])
    outputs, stats = forward(params, state.stats, images, key, True)
    num_labeled, num_unlabeled = batch.label.shape[0], batch.index.shape[0]
    cuts = [num_labeled + v * num_unlabeled for v in range(num_views)]
    z_l, *z_views = jnp.split(outputs["logits"], cuts)
    return jnp.mean(cross_entropy(z_l, batch.label)), z_views, stats


def joint_outputs(forward, params, state, batch, key):
    """One forward over every view of the labeled and the unlabeled rows.

    All these rows reach BatchNorm.

    Returns:
      The outputs of every head by name, each a list with the rows of every view: first
      the labeled ones, [B, ...], then the unlabeled ones, [M, ...]; and the new
      statistics.
    """
    images = [*batch.image, *batch.views]
    outputs, stats = forward(params, state.stats, jnp.concatenate(images), key, True)
    cuts = np.cumsum([len(view) for view in images])[:-1]
    return {name: jnp.split(rows, cuts) for name, rows in outputs.items()}, stats


def baseline(num_classes: int) -> Method:
    """Training on D_l only (paper §3.2, "Baseline"): the floor for everything else."""
    return Method(
        loss=supervised_loss,
        heads={"logits": Head(num_classes)},
        views=(),
        labeled_views=("strong",),
    )
