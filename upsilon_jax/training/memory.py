"""Whether a run can fit into memory at all, before anything is made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import jax
import ml_collections
from jax.sharding import Mesh

from upsilon_jax.config.schedule import unlabeled_rows
from upsilon_jax.data.source import Source
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import Method
from upsilon_jax.runtime import memory
from upsilon_jax.types import Head, Splits

# A Wide-ResNet has three groups of n blocks, of c = 16, 32 and 64 times its width.
_FEATURES = 64  # of the last group; heads start from them

# Copies of the weights: they, their average, the gradient, the optimizer's moments.
_COPIES = {"adam": 5, "sgd": 4}
_FLOAT = 4  # bytes

_OF_HEADS = ("num_heads", "num_hidden")  # fields of methods


def check_memory(
    config: ml_collections.ConfigDict,
    source: Source,
    splits: Splits,
    method: Method,
    mesh: Mesh,
) -> None:
    """Refuses what cannot run for want of memory, whatever the compiler does.

    Args:
      config: complete.
      source: its data.
      splits: drawn from them.
      method: whose heads the network has.
      mesh: the devices.

    Raises:
      ConfigError: one line with what takes most, and the field to lower.
    """
    train, size = config.train, math.prod(source.image_shape)
    pixels = sum(map(len, splits[:4])) * size if source.resident else 0
    clusters = method.num_outputs - splits.num_classes
    sizes = "".join(
        f", method.{name}={config.method[name]}"
        for name in _OF_HEADS
        if name in config.method
    )
    needs = {
        "images (data.residency=stream reads them from disk)": pixels,
        f"the weights of the network (model.depth={config.model.depth}, "
        f"model.width={config.model.width}, {clusters:,} clusters{sizes})": (
            _COPIES[train.optimizer] * _FLOAT * _num_weights(config, method.heads)
        ),
        f"a step (train.batch_size={train.batch_size}, data.unlabeled_ratio="
        f"{config.data.unlabeled_ratio}, images of "
        f"{'×'.join(map(str, source.image_shape))})": _step_bytes(config, source),
        f"the outputs of D_u ({len(splits.unlabeled):,} images, {clusters:,} "
        "clusters)": _FLOAT * len(splits.unlabeled) * method.num_outputs,
    }
    total, room = sum(needs.values()), _room(mesh)
    if total > room:
        raise ConfigError(
            f"at least {memory.shown(total)} of memory are needed, most of it for "
            f"{max(needs, key=needs.__getitem__)}; there are {memory.shown(room)}"
        )


def head_weights(heads: Mapping[str, Head], features: int) -> int:
    """Of every layer of the heads on so many features, without biases."""
    widths, total = {"features": features}, 0
    for name, head in heads.items():
        widths[name] = math.prod(head.shape)
        layers = itertools.pairwise((widths[head.source], *head.hidden, widths[name]))
        total += sum(inputs * outputs for inputs, outputs in layers)
    return total


def _num_weights(config: ml_collections.ConfigDict, heads: Mapping[str, Head]) -> int:
    """Of the heads, and of one 3×3 convolution of each block, c channels to c."""
    blocks = (config.model.depth - 4) // 6
    width = config.model.width
    body = blocks * 9 * (16 * width) ** 2 * (1 + 4 + 16)
    return body + head_weights(heads, _FEATURES * width)


def _step_bytes(config: ml_collections.ConfigDict, source: Source) -> int:
    """What the backward pass must find: the images, and one map of each block.

    The second group has a quarter of the pixels, the third a sixteenth.
    """
    height, width, channels = source.image_shape
    blocks = (config.model.depth - 4) // 6
    maps = channels + blocks * 16 * config.model.width * (1 + 1 / 2 + 1 / 4)
    rows = config.train.batch_size + unlabeled_rows(config)
    each = 2 if config.model.dtype == "bfloat16" else _FLOAT
    return int(rows * height * width * maps * each)


def _room(mesh: Mesh) -> int:
    """Bytes of all devices together; CPU devices share the memory of their machine."""
    if jax.default_backend() == "cpu":
        return memory.most_bytes() * jax.process_count()
    told = [(d.memory_stats() or {}).get("bytes_limit") for d in mesh.local_devices]
    limits = [limit for limit in told if limit is not None]
    if len(limits) < len(told):
        return 2**63
    return sum(limits) * jax.process_count()
