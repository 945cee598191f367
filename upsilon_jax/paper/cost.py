"""About how long an experiment takes, before it is started.

A step passes B labeled images through the network, and as many unlabeled ones once
pre-training is over; the gradient costs twice what the outputs do. Methods with several
views or passes take up to four times as long (`docs/methods.md`): the estimate leaves
that out, as well as evaluations.
"""

from __future__ import annotations

import functools
import time

import jax
import jax.numpy as jnp

from upsilon_jax import models
from upsilon_jax.config import ConfigDict
from upsilon_jax.config.schedule import steps_per_epoch, unlabeled_rows
from upsilon_jax.data import digits
from upsilon_jax.data.prepare import PARTS
from upsilon_jax.data.tfds_source import FACTS
from upsilon_jax.runtime import compilation
from upsilon_jax.types import Head

# What the estimate at the paper's scale is for, and what it does in such a network.
ACCELERATOR, FLOPS_PER_SECOND = "NVIDIA A100", 2e13

_PROBED_IMAGES, _PROBES = 128, 3

Shape = tuple[int, int, int]  # of an image


def images_in_training(config: ConfigDict) -> int:
    """Images that pass forward and back during a whole run."""
    train = config.train
    epochs_with_both = train.epochs - train.pretrain_epochs
    if config.method.name == "baseline":
        epochs_with_both = 0
    labeled = train.epochs * train.batch_size
    unlabeled = epochs_with_both * unlabeled_rows(config)
    steps = steps_per_epoch(config, config.data.num_unlabeled)
    return steps * (labeled + unlabeled)


def hours(configs: dict[str, ConfigDict], scale: str) -> float:
    """Of all runs, one after the other; on this machine, or on `ACCELERATOR`."""
    total = 0.0
    for config in configs.values():
        network = _network(config)
        if scale == "paper":
            seconds = 3 * forward_flops(*network) / FLOPS_PER_SECOND
        else:
            seconds = image_seconds(*network)
        total += images_in_training(config) * seconds
    return total / 3600


def _network(config: ConfigDict) -> tuple[int, int, Shape]:
    """Depth, width, and the shape of an image."""
    name, size = config.data.name, config.data.image_size
    first = PARTS.get(name, (name,))[0]
    shape = digits.IMAGE_SHAPE if first == "digits" else FACTS[first].image_shape
    if size:
        shape = (size, size, shape[2])
    return config.model.depth, config.model.width, shape


def _loss(depth: int, width: int, *, native: bool):
    heads = {"logits": Head(10)}
    module = models.build("wide_resnet", heads, depth=depth, width=width, native=native)
    forward = models.forward_of(module)

    def loss(params, stats, images):
        outputs, _ = forward(params, stats, images, jax.random.key(0), True)
        return jax.nn.logsumexp(outputs["logits"], axis=-1).mean()

    return module, loss


@functools.cache
def forward_flops(depth: int, width: int, shape: Shape) -> float:
    """Floating-point operations of one image's way through a Wide-ResNet."""
    module, loss = _loss(depth, width, native=False)
    params, stats = models.initialize(module, shape, 0)
    images = jax.ShapeDtypeStruct((_PROBED_IMAGES, *shape), jnp.float32)
    analysis = jax.jit(loss).lower(params, stats, images).cost_analysis()
    assert analysis is not None  # as backends without one give
    return analysis["flops"] / _PROBED_IMAGES


@functools.cache
def image_seconds(depth: int, width: int, shape: Shape) -> float:
    """Of one image forward and back on this machine, measured in a moment."""
    module, loss = _loss(depth, width, native=True)
    params, stats = models.initialize(module, shape, 0)
    images = jax.random.normal(jax.random.key(0), (_PROBED_IMAGES, *shape))
    step = compilation.jit(jax.grad(loss))
    jax.block_until_ready(step(params, stats, images))
    times = []
    for _ in range(_PROBES):
        start = time.perf_counter()
        jax.block_until_ready(step(params, stats, images))
        times.append(time.perf_counter() - start)
    return min(times) / _PROBED_IMAGES
