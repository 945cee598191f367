"""The functions that a run compiles: the train step and the refresh.

Each is traced once per run: shapes never depend on how many images were selected, and
what changes from refresh to refresh travels as traced values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from upsilon_jax.kernels.augment import views
from upsilon_jax.kernels.targets import moving_average
from upsilon_jax.kernels.views import VIEWS
from upsilon_jax.methods.base import Method, keep
from upsilon_jax.methods.baseline import supervised_loss
from upsilon_jax.types import Batch, Forward, TrainState

# The learning rate's schedules, and SGD's momentum.
_STEP_AT, _STEP_FACTOR = 0.8, 0.2
_ARC = 7 * math.pi / 16
_MOMENTUM = 0.9

# Purposes of the random key of a step: keys are derived, never stored.
_LABELED, _UNLABELED, _ADAPT, _LOSS = range(4)


class RawBatch(NamedTuple):
    """A batch as the host knows it: pixels before augmentation."""

    image: jax.Array  # [B, H, W, C] uint8
    label: jax.Array  # [B] int32
    unlabeled: jax.Array  # [M, H, W, C] uint8; M = 0 in a supervised batch
    # [M] int32, positions in D_u; hides tuple.index
    index: jax.Array  # type: ignore[assignment]


class Pixels(NamedTuple):
    """How uint8 pixels become the network's input."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: str = "paper"
    flip: bool = True


def make_optimizer(
    learning_rate: float,
    schedule: str,
    total_steps: int,
    *,
    name: str = "adam",
    weight_decay: float = 0.0,
) -> optax.GradientTransformation:
    """Adam, or SGD with Nesterov momentum.

    Args:
      learning_rate: η.
      schedule: "step" cuts the rate to a fifth at 80 % of training (Oliver 2018),
        "cosine" is η cos(7π/16 · t/T) (FixMatch), "constant" η.
      total_steps: T.
      name: "adam" or "sgd".
      weight_decay: λ; adds λ w to the gradient of matrices and convolutions, and
        nothing to that of biases and BatchNorm, which are vectors.
    """
    rate = {
        "step": optax.piecewise_constant_schedule(
            learning_rate, {int(_STEP_AT * total_steps): _STEP_FACTOR}
        ),
        "cosine": lambda step: learning_rate * jnp.cos(_ARC * step / total_steps),
        "constant": learning_rate,
    }[schedule]
    optimizers = {
        "adam": optax.adam,
        "sgd": lambda rate: optax.sgd(rate, momentum=_MOMENTUM, nesterov=True),
    }
    optimizer = optimizers[name](rate)
    if not weight_decay:
        return optimizer
    decayed = lambda params: jax.tree.map(lambda weight: weight.ndim > 1, params)
    return optax.chain(optax.add_decayed_weights(weight_decay, decayed), optimizer)


def init_state(
    optimizer: optax.GradientTransformation,
    params: Any,
    stats: Any,
    method_state: Any,
) -> TrainState:
    """The state before the first step; the EMA starts at the parameters."""
    copy = lambda tree: jax.tree.map(jnp.copy, tree)  # donation forbids aliases

    @jax.jit
    def init(params, stats):
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=copy(params),
            stats=copy(stats),
            opt=optimizer.init(params),
            ema=(copy(params), copy(stats)),
            method=None,
        )

    return init(params, stats)._replace(method=method_state)


def augmented(raw: RawBatch, method: Method, pixels: Pixels, key: jax.Array) -> Batch:
    """The views a method asks for, normalised."""
    draw = lambda images, names, purpose: views(
        images,
        jax.random.fold_in(key, purpose),
        tuple(VIEWS[pixels.augmentation][name] for name in names),
        flip=pixels.flip,
        mean=pixels.mean,
        std=pixels.std,
    )
    return Batch(
        image=draw(raw.image, method.labeled_views, _LABELED),
        label=raw.label,
        views=draw(raw.unlabeled, method.views, _UNLABELED),
        index=raw.index,
    )


def make_train_step(
    method: Method,
    forward: Forward,
    optimizer: optax.GradientTransformation,
    pixels: Pixels,
    *,
    ema_decay: float,
    supervised: bool = False,
) -> Callable:
    """One step, not yet jitted: adapt → loss and gradient → optimizer → EMA.

    Args:
      method: what to minimise.
      forward: the network.
      optimizer: an optax transformation.
      pixels: how images are augmented and normalised.
      ema_decay: of the average that is evaluated.
      supervised: takes the supervised loss instead of the method's own, and leaves the
        method's state alone: pre-training, and epochs without pseudo-labels.

    Returns:
      (state, RawBatch, key) -> (state, metrics). `key` is the run's root key; metrics
      are scalars by name, "loss" among them.
    """
    loss_fn = supervised_loss if supervised else method.loss
    adapt = keep if supervised else method.adapt

    def train_step(state, raw, key):
        key = jax.random.fold_in(key, state.step)
        batch = augmented(raw, method, pixels, key)
        state = state._replace(
            method=adapt(forward, state, batch, jax.random.fold_in(key, _ADAPT))
        )
        objective = lambda params: loss_fn(
            forward, params, state, batch, jax.random.fold_in(key, _LOSS)
        )
        (loss, aux), grads = jax.value_and_grad(objective, has_aux=True)(state.params)
        updates, opt = optimizer.update(grads, state.opt, state.params)
        params = optax.apply_updates(state.params, updates)
        new = TrainState(
            step=state.step + 1,
            params=params,
            stats=aux.stats,
            opt=opt,
            ema=moving_average(state.ema, (params, aux.stats), state.step, ema_decay),
            method=aux.method,
        )
        return new, {"loss": loss, **aux.metrics}

    return train_step


def make_train_steps(train_step: Callable) -> Callable:
    """Several steps in one program, so that a fast device need not wait for the host.

    Not for the CPU, where XLA runs the gradient of a convolution in a loop many times
    slower.

    Args:
      train_step: from `make_train_step`.

    Returns:
      (state, RawBatch of [S, ...] arrays, count, key) -> (state, metrics of [S]). Only
      the first `count` steps are taken; the metrics of the others are zero.
    """

    def train_steps(state, batches, count, key):
        pick = lambda step: jax.tree.map(lambda x: x[step], batches)
        _, scalars = jax.eval_shape(train_step, state, pick(0), key)
        num_steps = len(batches.label)
        metrics = {k: jnp.zeros(num_steps, v.dtype) for k, v in scalars.items()}

        def advance(step, carry):
            state, metrics = carry
            state, new = train_step(state, pick(step), key)
            return state, {k: v.at[step].set(new[k]) for k, v in metrics.items()}

        return jax.lax.fori_loop(0, count, advance, (state, metrics))

    return train_steps


def make_refresh(method: Method) -> Callable | None:
    """`method.refresh`, with rows of padding cut off its result."""
    if method.refresh is None:
        return None

    def refresh(state, outputs, where, key):
        new = method.refresh(state, outputs, where, key)
        cut = lambda old, new: new[: old.shape[0]] if old.ndim else new
        return jax.tree.map(cut, state.method, new)

    return refresh
