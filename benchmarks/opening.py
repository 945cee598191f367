"""How long does it take until a split's images are read?  python -m benchmarks.opening.

Opens the data of configs/cifar10.py and reads what its split uses, in a process of its
own each time: with an empty cache of decoded pixels, and then again with the full one.
Needs the real CIFAR-10 (`python -m upsilon_jax.data cifar10`); a minute.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

import numpy as np

from benchmarks.alone import call_alone

LATER = 3  # starts with a full cache


def seconds_to_read(cache: str, data_dir: str | None) -> float:
    """From opening the data set to having the pixels of the split in memory."""
    from upsilon_jax.config import load_config
    from upsilon_jax.config.from_data import draw_splits, open_source

    os.environ["XDG_CACHE_HOME"] = cache
    config = load_config("cifar10")
    config.data.data_dir = data_dir
    start = time.perf_counter()
    source = open_source(config)
    splits = draw_splits(config, source)
    source.read("train", np.sort(np.concatenate([splits.labeled, splits.unlabeled])))
    source.read("test", np.arange(len(source.test_labels)))
    return time.perf_counter() - start


def main() -> None:
    """Prints the seconds, and their ratio."""
    data_dir = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as cache:
        seconds = [
            call_alone("benchmarks.opening.seconds_to_read", cache, data_dir)
            for _ in range(1 + LATER)
        ]
    first, later = seconds[0], float(np.median(seconds[1:]))
    print(f"first start {first:.1f} s, later {later:.1f} s, ratio {later / first:.2f}")


if __name__ == "__main__":
    main()
