"""From an experiment to the runs it has: their folders, configs and lengths."""

from __future__ import annotations

import itertools
from typing import Any

from upsilon_jax.config import ConfigDict, load_config, run_name, validate
from upsilon_jax.config.schedule import steps_per_epoch
from upsilon_jax.paper.experiments import Experiment, Runs

SCALES = ("digits", "desk", "paper")


def configs_of(
    experiment: Experiment, scale: str, fields: dict[str, Any]
) -> dict[str, ConfigDict]:
    """The folder of every run and its config, valid.

    A run that several experiments have is called the same in all of them.

    Args:
      experiment: see `EXPERIMENTS`.
      scale: one of `SCALES`.
      fields: of all configs, changed.
    """
    found = {}
    for runs in getattr(experiment, scale):
        grid = itertools.product(runs.seeds, runs.mismatch, runs.methods)
        for seed, ratio, method in grid:
            config = load_config(runs.config, method)
            given = {**fields, **runs.fields, "seed": seed, "data.mismatch": ratio}
            config.update_from_flattened_dict(given)
            validate(config)
            found[_name(runs, config)] = config
    return found


def _name(runs: Runs, config: ConfigDict) -> str:
    name = run_name(runs.config, config)
    return f"{name}-{runs.suffix}" if runs.suffix else name


def total_steps(config: ConfigDict) -> int:
    """Of one run, if D_u is as large as the config wishes."""
    return config.train.epochs * steps_per_epoch(config, config.data.num_unlabeled)
