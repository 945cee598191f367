"""Row 11: cost of the kernels as problems grow and devices multiply; their memory."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType

import jax
import numpy as np

import upsilon_jax
from benchmarks.results import Result
from benchmarks.scales import Scale, shape_label
from benchmarks.timing import alternate, median, quartiles
from upsilon_jax.runtime import sharding

ROOT = pathlib.Path(__file__).parent.parent
NUM_DEVICES = 8
SPREAD = 2.0
# Growth that a kernel may have with K: linear, for the K×K Hessian of `balance` K².
POWERS = {"sinkhorn": 1, "balance": 2, "rebalance": 1}
KERNELS: dict[str, Callable[[jax.Array], object]] = {
    "sinkhorn": lambda x: upsilon_jax.sinkhorn(x),
    "balance": lambda x: upsilon_jax.balance(x, tolerance=1e-4),
    "rebalance": lambda x: upsilon_jax.rebalance(x, x.shape[1], threshold=0.5),
}


def make_input(rows: int, columns: int) -> jax.Array:
    """[rows, columns] log-probabilities, which serve as logits too."""
    logits = SPREAD * jax.random.normal(jax.random.key(0), (rows, columns))
    return jax.nn.log_softmax(logits)


def scaling(scale: Scale) -> list[Result]:
    """Row 11."""
    rows = (
        (scale.few_rows, scale.middle_clusters),
        (
            scale.many_rows,
            scale.middle_clusters,
        ),
    )
    columns = (
        (scale.middle_rows, scale.few_clusters),
        (
            scale.middle_rows,
            scale.many_clusters,
        ),
    )
    largest = max((*rows, *columns), key=np.prod)
    results = []
    for kernel in KERNELS:
        results += [
            _growth(kernel, *rows, 1, scale),
            _growth(kernel, *columns, POWERS[kernel], scale),
            _devices(kernel, rows[1], scale),
            _memory(kernel, largest, scale),
        ]
    return results


def _growth(
    kernel: str,
    small: tuple[int, int],
    large: tuple[int, int],
    power: int,
    scale: Scale,
) -> Result:
    """Time of the large problem by that of the small one, by the growth allowed."""
    inputs = {"ours": make_input(*large), "small": make_input(*small)}
    call = KERNELS[kernel]
    calls = {name: lambda x=x: call(x) for name, x in inputs.items()}
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    growth = (large[0] / small[0]) * (large[1] / small[1]) ** power
    excess = lambda large, small: large / small / growth
    law = "linear" if power == 1 else "K²"
    return Result(
        11,
        f"{kernel}, {shape_label(*small)} → {shape_label(*large)}",
        f"{law}: {growth:.4g} times {shape_label(*small)}",
        quartiles(map(excess, times["ours"], times["small"])),
        scale.bounds["linear"],
        (median(times, "ours"), growth * median(times, "small")),
    )


def _memory(kernel: str, shape: tuple[int, int], scale: Scale) -> Result:
    """Input, result and temporaries of the compiled program, by the input's size."""
    x = jax.ShapeDtypeStruct(shape, np.float32)
    used = jax.jit(KERNELS[kernel]).lower(x).compile().memory_analysis()
    total = (
        used.argument_size_in_bytes
        + used.output_size_in_bytes
        + used.temp_size_in_bytes
    )
    ratio = total / (4 * np.prod(shape, dtype=float))
    return Result(
        11,
        f"{kernel} {shape_label(*shape)}, peak memory with input and result",
        "the logits",
        quartiles([ratio]),
        scale.bounds["memory"],
    )


def _devices(kernel: str, shape: tuple[int, int], scale: Scale) -> Result:
    """Two processes take turns: rows over 8 virtual devices, and on one device."""
    with Worker(kernel, shape, NUM_DEVICES) as many, Worker(kernel, shape, 1) as one:
        # Sums of a million float32 numbers in another order.
        np.testing.assert_allclose(many.checksum, one.checksum, rtol=1e-3)
        calls = {"ours": many.run, "one": one.run}
        times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    return Result(
        11,
        f"{kernel} {shape_label(*shape)}, {NUM_DEVICES} virtual devices",
        "one device, the same cores",
        quartiles(m / o for m, o in zip(times["ours"], times["one"], strict=True)),
        scale.bounds["devices"],
        (median(times, "ours"), median(times, "one")),
    )


class Worker:
    """A process that runs a kernel once for every line it is sent."""

    def __init__(self, kernel: str, shape: tuple[int, int], devices: int):
        arguments = map(str, (kernel, *shape, devices))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scaling", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.checksum = float(self._answer())

    def run(self) -> None:
        """One call of the kernel, from sending the line to its answer."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("a worker ended early: its message is above")
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()  # closes its input, which ends its loop


def work(kernel: str, rows: int, columns: int, devices: int) -> None:
    """What a worker does: prints a checksum, then a line for every line read."""
    jax.config.update("jax_num_cpu_devices", devices)
    x = sharding.put_rows(make_input(rows, columns), sharding.data_mesh())
    call = jax.jit(KERNELS[kernel])
    leaf = jax.tree.leaves(call(x))[-1]
    values = np.asarray(leaf, np.float64)
    order = np.arange(1, values.size + 1).reshape(values.shape) / values.size
    # Squares: the plain sum of a plan is 1, whatever it is.
    print(np.sum(values**2 * order), flush=True)
    for _ in sys.stdin:
        jax.block_until_ready(call(x))
        print("done", flush=True)


if __name__ == "__main__":
    work(sys.argv[1], *map(int, sys.argv[2:]))
