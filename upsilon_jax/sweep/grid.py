"""Which runs a sweep has: methods × mismatch ratios × seeds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping

from upsilon_jax import commandline
from upsilon_jax.config import ConfigDict, flatten, run_name, validate
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import METHODS


def grid(options: commandline.Options) -> dict[str, ConfigDict]:
    """The name of every run, which is that of its folder, and its config, valid."""
    told = options.flags
    ratios = _numbers("mismatch", told.mismatch, float) or [None]
    seeds = _numbers("seeds", _without_ranges(told.seeds), int)
    methods = list(METHODS) if told.methods == ["all"] else told.methods
    for flag, found in (("seeds", seeds), ("methods", methods)):
        if not found:
            raise ConfigError(f"--{flag}={','.join(getattr(told, flag))}: names none")
    configs = {method: options.config_for(method) for method in methods}
    _check_overrides(options, configs)
    runs = {}
    for seed, ratio, method in itertools.product(seeds, ratios, methods):
        config = configs[method].copy_and_resolve_references()
        config.seed = seed
        if ratio is not None:
            config.data.mismatch = ratio
        validate(config)
        runs[run_name(options.config_name, config)] = config
    return runs


def _check_overrides(
    options: commandline.Options, configs: Mapping[str, ConfigDict]
) -> None:
    """A hyperparameter may be that of one of the methods, but not of none."""
    known = {field for config in configs.values() for field in flatten(config)}
    for field in options.overrides:
        if field not in known:
            raise ConfigError(
                f"--config.{field}: {', '.join(configs)} has no such field"
            )


def _without_ranges(words: list[str]) -> list[str]:
    """0-2 as 0, 1, 2."""
    found: list[str] = []
    for word in words:
        if ends := re.fullmatch(r"(\d+)-(\d+)", word):
            found += map(str, range(int(ends[1]), int(ends[2]) + 1))
        else:
            found.append(word)
    return found


def _numbers(flag: str, words: list[str], kind: Callable) -> list:
    try:
        return [kind(word) for word in words]
    except ValueError:
        raise ConfigError(
            f"--{flag}={','.join(words)}: must be numbers with commas between them"
        ) from None
