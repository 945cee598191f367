"""Does a process stay as it is over many refreshes?  python -m benchmarks.long_load.

2,000 refreshes of a tiny network on the digits, half with images on the device and half
streamed, each with other weights: how many images RPL keeps of a class (N) and SEC
labels (M) changes all the time. Counts compilations, memory, open files and threads
after a few refreshes, and at the end. Two minutes.
"""

from __future__ import annotations

import gc
import os
import pathlib
import threading
from typing import Any, NamedTuple

import jax
import numpy as np

REFRESHES = 1000  # of each kind
WARM_UP = 100  # until caches of the allocator are filled
_COMPILED = "/jax/core/compile/backend_compile_duration"


class Process(NamedTuple):
    """What must not grow."""

    resident_mib: float
    open_files: int
    threads: int


class Load(NamedTuple):
    """What many refreshes left behind."""

    before: Process
    after: Process
    compilations: int
    kept: list[int]  # different N
    explored: list[int]  # different M


def now() -> Process:
    """Of this process, after what nobody uses is gone."""
    gc.collect()
    status = pathlib.Path("/proc/self/status").read_text()
    (kib,) = (line.split()[1] for line in status.splitlines() if "VmRSS" in line)
    files = len(os.listdir("/proc/self/fd"))
    return Process(int(kib) / 1024, files, threading.active_count())


def config_of(*, streamed: bool) -> Any:
    """A run of the digits that refreshes in milliseconds."""
    from upsilon_jax.config import load_config

    config = load_config("digits", "upsilon")
    config.data.update(num_unlabeled=96, labels_per_class=5, augmentation="none")
    # Of two classes even random weights keep some.
    config.data.update(id_classes=("0", "1"), ood_classes=("2", "3"))
    config.data.residency = "stream" if streamed else "resident"
    config.model.update(depth=10, width=1)
    config.train.batch_size = 32
    config.method.update(threshold=0.35, ood_threshold=0.3)
    return config


@jax.jit
def changed(params: Any, scale: jax.Array, key: jax.Array) -> Any:
    """Other weights, from no preference at all to certainty."""
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    noisy = [
        leaf + scale * jax.random.normal(k, leaf.shape)
        for leaf, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(tree, noisy)


def load(refreshes: int, *, streamed: bool) -> Load:
    """Refreshes again and again, and looks at the process before and after."""
    from upsilon_jax.training.refresh import refresh
    from upsilon_jax.training.setup import Shared, initial_state, prepare

    config, shared, compiled = config_of(streamed=streamed), Shared(), []
    source = shared.source(config)
    shared._source = source._replace(resident=not streamed)
    run = prepare(config, shared=shared)
    state, rng = initial_state(run), np.random.default_rng(0)
    kept, explored = set(), set()
    listen = lambda event, _, **__: compiled.append(event)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for number in range(WARM_UP + refreshes):
            if number == WARM_UP:
                before = now()
                compiled.clear()
            scale = np.float32(10 ** rng.uniform(-2, 1))
            params = changed(state.params, scale, jax.random.key(number))
            found, *_ = refresh(run, state._replace(params=params), number)
            labels = np.asarray(found.method.label)
            classes = labels[(labels >= 0) & (labels < run.splits.num_classes)]
            counts = np.bincount(classes, minlength=run.splits.num_classes)
            kept.add(int(counts.min()))
            explored.add(int((labels >= run.splits.num_classes).sum()))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    number = compiled.count(_COMPILED)
    return Load(before, now(), number, sorted(kept), sorted(explored))


def main() -> None:
    """Prints what was before and after."""
    for streamed in (False, True):
        found = load(REFRESHES, streamed=streamed)
        before, after = found.before, found.after
        print(
            f"{REFRESHES:,} refreshes, {'streamed' if streamed else 'resident'}: "
            f"{found.compilations} compilations; memory {before.resident_mib:.0f} → "
            f"{after.resident_mib:.0f} MiB; open files {before.open_files} → "
            f"{after.open_files}; threads {before.threads} → {after.threads}; "
            f"N {found.kept[0]} to {found.kept[-1]}, "
            f"M {found.explored[0]} to {found.explored[-1]}"
        )


if __name__ == "__main__":
    main()
