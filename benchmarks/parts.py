"""What the slow rows are made of:  python -m benchmarks.parts.

Prints milliseconds, all measured in alternation in one process: the three passes of
every kind of convolution of a WRN-28-2 against torch, and the parts of `rebalance`
against a plain maximum, which reads the logits once.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import MissingPeer, require
from benchmarks.scales import shape_label
from benchmarks.timing import Calls, alternate, median
from upsilon_jax.models.convolution import convolve
from upsilon_jax.runtime.compilation import jit
from upsilon_jax.runtime.memory import keep_freed

BATCH = 256
SHAPES = ((32, 16, 32), (32, 32, 32), (16, 64, 64), (8, 128, 128))  # size, in, out
LOGITS = ((40_000, 100), (1_000_000, 100))
ROUNDS = 7

# The package exports functions under the names of these modules.
confidence = importlib.import_module("upsilon_jax.kernels.confidence")
rebalance = importlib.import_module("upsilon_jax.kernels.rebalance")


def passes(size: int, channels: int, outputs: int) -> dict[str, tuple[Callable, Any]]:
    """Name -> (ours, torch's) call of the passes of a 3×3 convolution."""
    import torch

    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape, np.float32)
    x, kernel = draw(BATCH, size, size, channels), draw(3, 3, channels, outputs)
    dy = draw(BATCH, size, size, outputs)
    ours = [jnp.asarray(array) for array in (x, kernel, dy)]
    nchw = lambda array: torch.from_numpy(array).permute(0, 3, 1, 2)
    weight = torch.from_numpy(kernel).permute(3, 2, 0, 1)
    weight = weight.contiguous(memory_format=torch.channels_last)
    theirs = nchw(x), weight, nchw(dy)

    conv = functools.partial(convolve, stride=1, native=True)
    forward = jit(lambda x, k, dy: conv(x, k))
    to_input = jit(lambda x, k, dy: jax.vjp(lambda x: conv(x, k), x)[1](dy))
    to_kernel = jit(lambda x, k, dy: jax.vjp(lambda k: conv(x, k), k)[1](dy))

    def backward(x, weight, dy, which):
        ones = [1, 1]
        return torch.ops.aten.convolution_backward(
            dy, x, weight, None, ones, ones, ones, False, [0, 0], 1, which
        )

    conv2d = torch.nn.functional.conv2d
    pairs = {
        "forward": (forward, lambda x, w, dy: conv2d(x, w, padding=1)),
        "input gradient": (to_input, lambda *a: backward(*a, [True, False, False])),
        "weight gradient": (to_kernel, lambda *a: backward(*a, [False, True, False])),
    }
    return {
        name: (lambda f=own: f(*ours), lambda f=peer: f(*theirs))
        for name, (own, peer) in pairs.items()
    }


def parts_of_rebalance(rows: int, columns: int) -> Calls:
    """Name -> call; the first reads the logits once, the last is the whole."""
    logits = 2 * jax.random.normal(jax.random.key(0), (rows, columns))
    score = lambda x: confidence.id_confidence(x, columns)
    select = lambda label, value, rank: rebalance.select(
        label, value > 0.5, rank, columns
    )
    found = jax.jit(score)(logits)
    functions = {
        "maximum": (lambda x: x.max(axis=1), logits),
        "argmax": (lambda x: x.argmax(axis=1), logits),
        "sum of exp": (lambda x: jnp.exp(jnp.minimum(x, 0)).sum(axis=1), logits),
        "label and log-odds": (score, logits),
        "selection": (lambda found: select(*found), found),
        "rebalance": (
            lambda x: rebalance.rebalance(x, columns, threshold=0.5),
            logits,
        ),
    }
    compiled = {name: (jax.jit(f), x) for name, (f, x) in functions.items()}
    return {name: lambda f=f, x=x: f(x) for name, (f, x) in compiled.items()}


def main() -> None:
    """Prints both tables."""
    require("torch")
    keep_freed()
    names = ("forward", "input gradient", "weight gradient")
    print(f"3×3 convolutions, batch {BATCH}, ms of torch / ours:\n")
    print("| image, channels | " + " | ".join(names) + " |\n|---|" + "---:|" * 3)
    for size, channels, outputs in SHAPES:
        pairs = passes(size, channels, outputs)
        calls = {
            f"{name} {side}": call
            for name, pair in pairs.items()
            for side, call in zip(("ours", "torch"), pair, strict=True)
        }
        times = alternate(calls, rounds=ROUNDS)
        ms = lambda name, times=times: f"{1e3 * median(times, name):.3g}"
        cells = (f"{ms(f'{name} torch')} / {ms(f'{name} ours')}" for name in names)
        label = f"{size}×{size}, {channels} → {outputs}"
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)
    print("\nrebalance, ms:\n")
    for number, shape in enumerate(LOGITS):
        times = alternate(parts_of_rebalance(*shape), rounds=ROUNDS)
        if not number:
            print(
                "| logits | " + " | ".join(times) + " |\n|---|" + "---:|" * len(times)
            )
        cells = (f"{1e3 * median(times, name):.3g}" for name in times)
        print(f"| {shape_label(*shape)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except MissingPeer as error:
        sys.exit(f"{error}")
