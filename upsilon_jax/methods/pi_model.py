"""Π-Model (Laine & Aila 2017, §2.1), and the consistency loss Mean Teacher shares."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.losses import sigmoid_ramp, squared_error
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_pass
from upsilon_jax.methods.selection import cluster_loss, outside_clusters
from upsilon_jax.types import Aux, Head


def consistency_loss(
    num_classes: int, teacher: Callable, *, loss_weight: float, ramp_steps: int
) -> Callable:
    """L = mean CE(z_l, y_l) + w(t) · mean_i mean_c (p_a - p_b)².

    p_a [M, T] is the student's softmax on one view of an unlabeled image, p_b [M, T]
    the teacher's on another, without gradient; c runs over all T outputs. In a composed
    method rows are weighed, and the CE of z_a to clusters is a mean of its own over i,
    with weight 1, as w is made for squared errors.

    The student's forward over labeled and unlabeled rows updates BatchNorm; the
    teacher's uses the statistics of its batch and updates nothing (Oliver et al. 2018).

    Args:
      num_classes: C.
      teacher: (params, state) -> parameters of the teacher.
      loss_weight: w after the ramp.
      ramp_steps: length of the ramp w(t).
    """

    def loss(forward, params, state, batch, key):
        labeled, (z_a,), stats = joint_pass(forward, params, state, batch, key)
        fixed = jax.lax.stop_gradient(teacher(params, state))
        key_b = jax.random.fold_in(key, 1)
        other, _ = forward(fixed, state.stats, batch.views[1], key_b, True)
        p_a, p_b = jax.nn.softmax(z_a), jax.nn.softmax(other["logits"])
        per_row = squared_error(p_a, p_b)
        unlabeled = jnp.mean(outside_clusters(per_row, batch.pseudo, num_classes))
        clusters = cluster_loss(z_a, batch.pseudo, num_classes)

        ramp = sigmoid_ramp(state.step, ramp_steps)
        total = labeled + loss_weight * ramp * unlabeled + clusters
        metrics = {"labeled_loss": labeled, "unlabeled_loss": unlabeled + clusters}
        return total, Aux(stats, state.method, metrics)

    return loss


def pi_model(
    num_classes: int,
    num_clusters: int = 0,
    *,
    loss_weight: float = 20.0,
    ramp_steps: int = 25_120,
) -> Method:
    """Two random views of an unlabeled image should get the same softmax.

    The teacher is the student itself. Weight and ramp are those of Oliver et al. 2018;
    the paper gives none [inferred].

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      loss_weight: w_max.
      ramp_steps: 40 % of training; the default is that of 400 epochs of 157 steps.
    """
    return Method(
        loss=consistency_loss(
            num_classes,
            lambda params, state: params,
            loss_weight=loss_weight,
            ramp_steps=ramp_steps,
        ),
        heads={"logits": Head(num_classes + num_clusters)},
        views=("strong", "weak"),
        labeled_views=("strong",),
    )
