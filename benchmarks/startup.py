"""Row 10: time to the first step, with programs on disk and without; import time."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from benchmarks.results import Result
from benchmarks.scales import Scale
from benchmarks.timing import alternate, median, quartiles

ROOT = pathlib.Path(__file__).parent.parent
IMPORT_PEER = "import jax"
IMPORT_OURS = "import jax; from upsilon_jax import rebalance, sinkhorn"


def start_up(scale: Scale) -> list[Result]:
    """Row 10."""
    return [_second_start(scale), _import_time(scale)]


def _second_start(scale: Scale) -> Result:
    """Both are new processes; the cold one has an empty cache of programs."""
    losses = set()
    with tempfile.TemporaryDirectory() as filled:
        start = lambda cache: losses.add(_start(cache, *scale.startup_net))
        start(filled)

        def cold() -> None:
            with tempfile.TemporaryDirectory() as empty:
                start(empty)

        calls = {"second": lambda: start(filled), "cold": cold}
        times = alternate(calls, rounds=scale.startup_rounds, warm_up=False)
    if len(losses) != 1:
        raise AssertionError(f"cold and second start have losses {losses}")
    depth, width = scale.startup_net
    return Result(
        10,
        f"first step of digits, WRN-{depth}-{width}",
        "the same with an empty cache",
        quartiles(s / c for s, c in zip(times["second"], times["cold"], strict=True)),
        scale.bounds["second start"],
        (median(times, "second"), median(times, "cold")),
    )


def _start(cache: str, depth: int, width: int) -> str:
    """Runs `first_step` in a process of its own; its loss as it was printed."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.startup",
        cache,
        str(depth),
        str(width),
    ]
    return _run(command)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout.strip()


def _import_time(scale: Scale) -> Result:
    """Seconds of a process that imports ours beyond one that imports jax alone."""
    run = lambda code: _run([sys.executable, "-c", code])
    calls = {"ours": lambda: run(IMPORT_OURS), "jax": lambda: run(IMPORT_PEER)}
    times = alternate(calls, rounds=scale.rounds)
    return Result(
        10,
        "import upsilon_jax beyond import jax",
        IMPORT_PEER,
        quartiles(o - j for o, j in zip(times["ours"], times["jax"], strict=True)),
        scale.bounds["import"],
        (median(times, "ours"), median(times, "jax")),
        unit=" s",
    )


def first_step(cache: str, depth: int, width: int) -> float:
    """What a run does up to and including its first step; the loss of it."""
    import numpy as np

    from configs import digits
    from upsilon_jax.data.samplers import Draws
    from upsilon_jax.runtime.compilation import enable_cache
    from upsilon_jax.training.setup import initial_state, prepare

    enable_cache(cache)
    os.environ["XDG_CACHE_HOME"] = cache  # C++ libraries are kept there
    config = digits.get_config("upsilon")
    config.model.update(depth=depth, width=width)
    run = prepare(config)
    state = initial_state(run)
    size = config.train.batch_size
    index = np.arange(size, dtype=np.int32)
    labeled = np.resize(run.splits.labeled, size)
    draws = Draws(
        labeled=labeled[None],
        label=run.train_classes[labeled].astype(np.int32)[None],
        unlabeled=run.splits.unlabeled[index][None],
        index=index[None],
    )
    with run.feed.batches(draws) as batches:
        batch, count = next(batches)
    _, metrics = run.programs.semi_supervised(state, batch, count, run.key)
    return float(metrics["loss"])


if __name__ == "__main__":
    print(first_step(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
