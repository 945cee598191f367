"""Mean Teacher (Tarvainen & Valpola 2017)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.targets import moving_average
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.pi_model import consistency_loss
from upsilon_jax.types import Head


class Teacher(NamedTuple):
    """The averaged student; not the average that is evaluated (`TrainState.ema`)."""

    params: Any
    updates: jax.Array  # [] int32


def mean_teacher(
    num_classes: int,
    num_clusters: int = 0,
    *,
    decay: float = 0.95,
    warm_up: bool = True,
    loss_weight: float = 8.0,
    ramp_steps: int = 25_120,
) -> Method:
    """Π-Model whose target comes from θ', an average of the student's past parameters.

        θ' ← d θ' + (1 - d) θ,     d = min(1 - 1/(t+1), d_max)

    after every optimizer step: here at the start of the next one, where `adapt` runs,
    whatever the weights of the rows.
    Only parameters are averaged; the teacher normalises with the statistics of its
    batch. Decay, weight and ramp are those of Oliver et al. 2018; the paper gives none
    [inferred].

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      decay: d_max.
      warm_up: False takes d = d_max from the first step.
      loss_weight: w_max.
      ramp_steps: 40 % of training; the default is that of 400 epochs of 157 steps.
    """

    def init(key, params, num_unlabeled, hidden=None):
        # A copy: the step donates the student's buffers.
        return Teacher(jax.tree.map(jnp.array, params), jnp.zeros((), jnp.int32))

    def adapt(forward, state, batch, key):
        teacher, updates = state.method
        averaged = moving_average(teacher, state.params, updates, decay, warm_up)
        return Teacher(averaged, updates + 1)

    return Method(
        loss=consistency_loss(
            num_classes,
            lambda params, state: state.method.params,
            loss_weight=loss_weight,
            ramp_steps=ramp_steps,
        ),
        heads={"logits": Head(num_classes + num_clusters)},
        init=init,
        adapt=adapt,
        views=("strong", "weak"),
        labeled_views=("strong",),
    )
