"""Whether a run can fit into memory at all, before anything is made."""

from __future__ import annotations

import math

import jax
import ml_collections
from jax.sharding import Mesh

from upsilon_jax.config.schedule import unlabeled_rows
from upsilon_jax.data.source import Source
from upsilon_jax.errors import ConfigError
from upsilon_jax.runtime import memory
from upsilon_jax.types import Splits

# A Wide-ResNet has three groups of n blocks, of c = 16, 32 and 64 times its width.

# Copies of the weights: they, their average, the gradient, the optimizer's moments.
_COPIES = {"adam": 5, "sgd": 4}
_FLOAT = 4  # bytes


def check_memory(
    config: ml_collections.ConfigDict,
    source: Source,
    splits: Splits,
    num_outputs: int,
    mesh: Mesh,
) -> None:
    """Refuses what cannot run for want of memory, whatever the compiler does.

    Args:
      config: complete.
      source: its data.
      splits: drawn from them.
      num_outputs: T.
      mesh: the devices.

    Raises:
      ConfigError: one line with what takes most, and the field to lower.
    """
    train, size = config.train, math.prod(source.image_shape)
    pixels = sum(map(len, splits[:4])) * size if source.resident else 0
    clusters = num_outputs - splits.num_classes
    needs = {
        "images (data.residency=stream reads them from disk)": pixels,
        f"the weights of the network (model.depth={config.model.depth}, "
        f"model.width={config.model.width}, {clusters:,} clusters)": (
            _COPIES[train.optimizer] * _FLOAT * _num_weights(config, num_outputs)
        ),
        f"a step (train.batch_size={train.batch_size}, data.unlabeled_ratio="
        f"{config.data.unlabeled_ratio}, images of "
        f"{'×'.join(map(str, source.image_shape))})": _step_bytes(config, source),
        f"the outputs of D_u ({len(splits.unlabeled):,} images, {clusters:,} "
        "clusters)": _FLOAT * len(splits.unlabeled) * num_outputs,
    }
    total, room = sum(needs.values()), _room(mesh)
    if total > room:
        raise ConfigError(
            f"at least {memory.shown(total)} of memory are needed, most of it for "
            f"{max(needs, key=needs.__getitem__)}; there are {memory.shown(room)}"
        )


def _num_weights(config: ml_collections.ConfigDict, num_outputs: int) -> int:
    """Of the last layer, and of one 3×3 convolution of each block, c channels to c."""
    width = config.model.width
    blocks = (config.model.depth - 4) // 6
    return 64 * width * num_outputs + blocks * 9 * (16 * width) ** 2 * (1 + 4 + 16)


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
