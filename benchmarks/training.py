"""Rows 1, 2 and 9: the train step and prediction, against torch and plain JAX."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.elsewhere import Elsewhere
from benchmarks.results import Result, compare
from benchmarks.scales import Net, Scale
from benchmarks.timing import alternate
from upsilon_jax import models
from upsilon_jax.inference.predict import predict_all
from upsilon_jax.methods import METHODS, Method
from upsilon_jax.runtime import sharding
from upsilon_jax.training.programs import Programs, make_programs
from upsilon_jax.training.step import (
    Pixels,
    RawBatch,
    init_state,
    make_optimizer,
    make_train_step,
)
from upsilon_jax.types import PseudoLabels

NUM_CLASSES, NUM_CLUSTERS = 6, 4  # CIFAR-10, 6 ID and 4 OOD classes
NUM_OUTPUTS = NUM_CLASSES + NUM_CLUSTERS
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
LEARNING_RATE, EMA_DECAY, BN_DECAY = 3e-3, 0.999, 0.999
PREDICT_BATCHES = 4  # as the loop: rows of a prediction, in training batches


class Problem(NamedTuple):
    """A network, a batch, and our compiled functions for them."""

    net: Net
    params: Any
    stats: Any
    batch: RawBatch
    labels: np.ndarray  # [2 · batch] of labeled rows, then of unlabeled ones
    method: Method
    optimizer: Any
    pixels: Pixels
    programs: Programs
    mesh: Any

    def state(self) -> Any:
        """A fresh train state in which all of D_u is pseudo-labeled."""
        labels = jnp.asarray(self.labels[self.net.batch :])
        pseudo = PseudoLabels(labels, jnp.ones(labels.shape, jnp.float32))
        state = init_state(self.optimizer, self.params, self.stats, pseudo)
        return sharding.replicate(state, self.mesh)


@functools.cache  # several rows share one, and what it has compiled
def make_problem(net: Net, augmentation: str) -> Problem:
    """Random images and labels; all else as `upsilon_jax.training.setup` has it."""
    rng = np.random.default_rng(0)
    shape = (net.batch, net.image_size, net.image_size, 3)
    method = METHODS["upsilon"](NUM_CLASSES, num_clusters=NUM_CLUSTERS)
    module = models.build(
        "wide_resnet",
        method.heads,
        depth=net.depth,
        width=net.width,
        bn_decay=BN_DECAY,
        native=True,
    )
    params, stats = models.initialize(module, shape[1:], seed=0)
    optimizer = make_optimizer(LEARNING_RATE, "constant", total_steps=1)
    pixels = Pixels(MEAN, STD, augmentation)
    mesh = sharding.data_mesh()
    labels = rng.integers(0, NUM_CLASSES, 2 * net.batch).astype(np.int32)
    batch = RawBatch(
        image=rng.integers(0, 256, shape).astype(np.uint8),
        label=labels[: net.batch],
        unlabeled=rng.integers(0, 256, shape).astype(np.uint8),
        index=np.arange(net.batch, dtype=np.int32),
    )
    return Problem(
        net=net,
        params=params,
        stats=stats,
        batch=sharding.put_rows(batch, mesh),
        labels=labels,
        method=method,
        optimizer=optimizer,
        pixels=pixels,
        programs=make_programs(
            method,
            models.forward_of(module),
            optimizer,
            pixels,
            mesh,
            ema_decay=EMA_DECAY,
        ),
        mesh=mesh,
    )


class Step:
    """Calls a compiled train step again and again, each time on the new state."""

    def __init__(self, program: Any, state: Any, batch: RawBatch):
        self.program, self.state, self.batch = program, state, batch
        self.key = jax.random.key(0)

    def __call__(self) -> float:
        self.state, metrics = self.program(self.state, self.batch, self.key)
        jax.block_until_ready(self.state)
        return float(metrics["loss"])


def our_step(problem: Problem) -> Step:
    """The step that the loop runs."""
    program = problem.programs.semi_supervised
    one = lambda state, batch, key: program(state, batch, 1, key)
    return Step(one, problem.state(), problem.batch)


def torch_net_of(problem: Problem) -> Any:
    """Torch's network with the same weights."""
    from benchmarks.peers import torch_net

    net = torch_net.WideResNet(
        problem.net.depth, problem.net.width, NUM_OUTPUTS, BN_DECAY
    )
    return torch_net.load(net, problem.params, problem.stats)


def torch_step(problem: Problem) -> Any:
    """The same step in torch."""
    from benchmarks.peers import torch_net

    images = np.concatenate([problem.batch.image, problem.batch.unlabeled])
    return torch_net.TrainStep(
        torch_net_of(problem),
        torch_net.Pixels(MEAN, STD),
        images,
        problem.labels,
        problem.net.batch,
        learning_rate=LEARNING_RATE,
        ema_decay=EMA_DECAY,
    )


def plain_step(net: Net) -> Step:
    """The same step over plain flax modules, jitted with default options."""
    from benchmarks.peers import flax_net

    problem = make_problem(net, "none")
    module = flax_net.build(net.depth, net.width, NUM_OUTPUTS, BN_DECAY)
    step = make_train_step(
        problem.method,
        models.forward_of(module),
        problem.optimizer,
        problem.pixels,
        ema_decay=EMA_DECAY,
    )
    state = problem.state()
    stats, average = (
        flax_net.load_stats(stats) for stats in (state.stats, state.ema[1])
    )
    state = state._replace(stats=stats, ema=(state.ema[0], average))
    return Step(jax.jit(step, donate_argnums=0), state, problem.batch)


def check_same_losses(ours: Any, peer: Any) -> None:
    """Takes two steps of both: the same loss before, and after the first update."""
    # Adam's first step is ± the learning rate whatever the gradient's size, so that
    # rounding of tiny gradients shows in the second loss.
    for step, tolerance in enumerate((1e-3, 2e-2)):
        np.testing.assert_allclose(
            ours(), peer(), rtol=tolerance, err_msg=f"losses of step {step} differ"
        )


def train_step_against_torch(scale: Scale) -> list[Result]:
    """Row 1: forward, backward, Adam and EMA, no augmentation."""
    problem = make_problem(scale.net, "none")
    calls = {"ours": our_step(problem), "torch": torch_step(problem)}
    return [_compare_steps(1, "torch", "torch eager, channels_last", calls, scale)]


def train_step_against_plain_jit(scale: Scale) -> list[Result]:
    """Row 2: the same against `nn.BatchNorm`, `nn.Conv` and default options.

    In a process of its own, where memory too is handled as by default.
    """
    problem = make_problem(scale.net, "none")
    with Elsewhere(plain_step, scale.net) as plain:
        calls = {"ours": our_step(problem), "jax.jit": plain}
        return [_compare_steps(2, "jax.jit", "flax, plain jax.jit", calls, scale)]


def _compare_steps(row, peer, description, calls, scale) -> Result:
    check_same_losses(*calls.values())
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    bound = scale.bounds[f"train step, {peer}"]
    return compare(row, scale.net.label, times, peer, bound, description=description)


def predict_against_torch(scale: Scale) -> list[Result]:
    """Row 9: logits of D_u from resident uint8 images, in order."""
    import torch

    from benchmarks.peers import torch_net

    problem = make_problem(scale.net, "none")
    chunk = PREDICT_BATCHES * scale.net.batch
    shape = (-(-scale.num_predicted // chunk) * chunk, *problem.batch.image.shape[1:])
    images = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    resident = sharding.replicate(images, problem.mesh)
    order = np.arange(len(images), dtype=np.int32).reshape(-1, chunk)
    programs, net = problem.programs, torch_net_of(problem)
    pixels, tensor = torch_net.Pixels(MEAN, STD), torch.from_numpy(images)

    def ours() -> jax.Array:
        chunks = (
            programs.gather(resident, sharding.put_rows(index, problem.mesh))
            for index in order
        )
        weights = problem.params, problem.stats
        outputs = predict_all(programs.predict, *weights, chunks, problem.mesh)
        return outputs["logits"]

    calls = {
        "ours": ours,
        "torch": lambda: torch_net.predict(net, pixels, tensor, chunk),
    }
    expected = calls["torch"]().numpy()
    # Sums of 1e2 to 1e3 float32 products in another order, over tens of layers.
    np.testing.assert_allclose(ours(), expected, atol=1e-3 * np.abs(expected).max())
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    case = f"{scale.net.label.split(',')[0]}, {len(images)} images"
    return [compare(9, case, times, "torch", scale.bounds["predict"])]
