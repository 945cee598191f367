"""Which runs a sweep has: methods × mismatch ratios × seeds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping

from upsilon_jax import commandline
from upsilon_jax.config import ConfigDict, flatten, run_name, validate
from upsilon_jax.errors import ConfigError, shortened
from upsilon_jax.methods import METHODS

USUAL = ("baseline", "pl", "upsilon")  # methods, if none is named
MOST_RUNS = 10_000  # of one sweep: more are a slip of the pen


def grid(options: commandline.Options) -> dict[str, ConfigDict]:
    """The name of every run, which is that of its folder, and its config, valid."""
    told, methods = options.flags, _methods(options)
    ratios = _numbers("mismatch", told.mismatch, float) or [None]
    seeds = _seeds(told.seeds, len(ratios) * len(methods))
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


def _methods(options: commandline.Options) -> list[str]:
    """Those of --methods, else that of --config, else the usual ones."""
    told = options.flags.methods
    if told is None:
        return [options.method] if options.method else list(USUAL)
    named = [word.strip() for word in told.split(",") if word.strip()]
    methods = list(METHODS) if named == ["all"] else named
    if not methods:
        raise ConfigError(f"--methods={told}: names none")
    if options.method and options.method not in methods:
        raise ConfigError(
            f"--config={options.config_name}:{options.method}: --methods={told} leaves "
            f"{options.method} out"
        )
    return methods


def _check_overrides(
    options: commandline.Options, configs: Mapping[str, ConfigDict]
) -> None:
    """A field must be that of one of the methods, and not what a flag says."""
    flags = {"seed": "seeds"}
    if options.flags.mismatch:
        flags["data.mismatch"] = "mismatch"
    for field, flag in flags.items():
        if field in options.overrides:
            raise ConfigError(f"--config.{field}: --{flag} says it")
    known = {field for config in configs.values() for field in flatten(config)}
    for field in options.overrides:
        if field not in known:
            raise ConfigError(
                f"--config.{field}: {', '.join(configs)} has no such field"
            )


def _seeds(words: list[str], runs_of_each: int) -> list[int]:
    """The seeds of numbers and ranges, once it is known that they are not too many."""
    ranges, said = _numbers("seeds", words, _range), f"--seeds={','.join(words)}"
    # Not by `len`, which counts no further than int64.
    count = sum(max(0, one.stop - one.start) for one in ranges)
    if not count:
        raise ConfigError(shortened(f"{said}: names none"))
    if count * runs_of_each > MOST_RUNS:
        line = f"{said}: makes more than the {MOST_RUNS:,} runs of a sweep"
        raise ConfigError(shortened(line))
    return list(itertools.chain(*ranges))


def _range(word: str) -> range:
    """0-2 as 0, 1, 2; and 7 as itself."""
    ends = re.fullmatch(r"(\d+)-(\d+)", word)
    first, last = map(int, ends.groups() if ends else (word, word))
    return range(first, last + 1)


def _numbers(flag: str, words: list[str], kind: Callable) -> list:
    try:
        return [kind(word) for word in words]
    except ValueError:
        line = f"--{flag}={','.join(words)}: must be numbers with commas between them"
        raise ConfigError(shortened(line)) from None
