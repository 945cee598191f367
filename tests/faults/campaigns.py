"""Every campaign of made-up and damaged input, with its number of cases.

A campaign is a function of a random generator and a folder that tries a case, or some.
It returns how many, and how many of them were taken and not refused; it raises if
something is other than it must be.
"""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.faults import (
    fuzz_config,
    fuzz_files,
    fuzz_images,
    fuzz_kernels,
    fuzz_names,
    fuzz_splits,
)


class Campaign(NamedTuple):
    """Cases of one kind."""

    run: Callable[[np.random.Generator, pathlib.Path], tuple[int, int]]
    cases: int  # in the slow set
    few: int = 0  # in the fast one
    taken: float = 1.0  # the least share: else what lies behind a refusal is not tried


# Those of kernels are slow to compile: tests/kernels has the fast ones.
CAMPAIGNS = {
    "kernels: plans": Campaign(fuzz_kernels.plans, 7_500),
    "kernels: selections": Campaign(fuzz_kernels.selections, 10_000),
    "kernels: explorations": Campaign(fuzz_kernels.explorations, 5_000),
    "kernels: imbalances": Campaign(fuzz_kernels.imbalances, 10_000, 250),
    "kernels: foreign shares": Campaign(fuzz_kernels.shares, 5_000),
    "kernels: dtypes": Campaign(fuzz_kernels.dtypes, 300),
    "kernels: meshes": Campaign(fuzz_kernels.meshes, 100),
    "config: values": Campaign(fuzz_config.values, 15_000, 200, 0.03),
    "config: set-ups": Campaign(fuzz_config.set_ups, 1_000, 10, 0.5),
    "config: command line": Campaign(fuzz_config.typed, 500, 40, 0.05),
    "splits: drawn": Campaign(fuzz_splits.drawn, 8_000, 200, 0.1),
    "splits: own data": Campaign(fuzz_splits.own, 4_000, 100, 0.5),
    "splits: shares": Campaign(fuzz_splits.shares, 8_000, 200),
    "images: changed": Campaign(fuzz_images.changed, 9_000, 150, 0.2),
    "images: cut": Campaign(fuzz_images.cut, 5_000, 100, 0.05),
    "npz: bytes": Campaign(fuzz_files.npz_bytes, 3_000, 40, 0.05),
    "npz: arrays": Campaign(fuzz_files.npz_arrays, 2_000, 30, 0.1),
    "tfrecord: bytes": Campaign(fuzz_files.tfrecords, 3_000, 40, 0.05),
    "manifest.json": Campaign(fuzz_files.manifests, 3_000, 40, 0.1),
    "result.json": Campaign(fuzz_files.results, 5_000, 40, 0.1),
    "export: bytes": Campaign(fuzz_files.export_bytes, 3_000, 40, 0.05),
    "export: manifest": Campaign(fuzz_files.export_manifests, 2_000, 20, 0.1),
    "export: pickles": Campaign(fuzz_files.export_pickles, 500, 20, 0),
    "names: CSV": Campaign(fuzz_names.tables, 5_000, 500),
    "names: HTML": Campaign(fuzz_names.pages, 5_000, 500),
}
_SEED = 14


def run(name: str, cases: int, folder: pathlib.Path) -> int:
    """Tries at least so many cases of a campaign, and returns how many it were."""
    done = taken = trial = 0
    while done < cases:
        # The seed of a trial that fails is in the traceback: [_SEED, trial].
        found = CAMPAIGNS[name].run(np.random.default_rng([_SEED, trial]), folder)
        done, taken, trial = done + found[0], taken + found[1], trial + 1
    assert taken >= CAMPAIGNS[name].taken * done, f"only {taken} of {done} were taken"
    return done
