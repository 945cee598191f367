"""Many runs of one config:  python -m upsilon_jax.sweep --config=configs/digits.py.

Every combination of methods, mismatch ratios and seeds is trained in turn, each in its
own folder under --workdir. Finished runs are passed over and an interrupted one goes
on, so the same command again completes a sweep. `python -m upsilon_jax.report DIR`
makes the table.
"""

from __future__ import annotations

import itertools
import pathlib
import sys
from collections.abc import Callable, Iterator

from upsilon_jax import commandline
from upsilon_jax.config import ConfigDict, validate
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import METHODS

COMMAND = commandline.Command(
    name="python -m upsilon_jax.sweep",
    about=__doc__,
    flags={
        "workdir": (None, "where results go [runs/sweep-NAME]"),
        "methods": (["baseline", "pl", "upsilon"], 'or "all" [baseline,pl,upsilon]'),
        "mismatch": ([], "shares of foreign images, 0 to 1 [the config's]"),
        "seeds": (["0", "1", "2", "3", "4"], "[0,1,2,3,4]"),
    },
)


def main(options: commandline.Options) -> None:
    """Trains what is not trained yet."""
    # After the flags are parsed: a mistyped flag should not wait for this import.
    from upsilon_jax.training.seeds import train

    name = options.config_name
    root = pathlib.Path(options.flags.workdir or f"runs/sweep-{name}")
    runs = {commandline.run_name(name, c): c for c in combinations(options)}
    for number, (folder, config) in enumerate(runs.items(), start=1):
        sys.stderr.write(f"[{number}/{len(runs)}] {folder}\n")
        result = train(config, root / folder)
        accuracy = result["accuracy"]
        sys.stderr.write(
            f"    {result['status']}"
            + (f", accuracy {accuracy:.2%}\n" if accuracy is not None else "\n")
        )
    sys.stderr.write(f"the table: python -m upsilon_jax.report {root}\n")


def combinations(options: commandline.Options) -> Iterator[ConfigDict]:
    """The config of every run, valid."""
    told = options.flags
    ratios = _numbers("mismatch", told.mismatch, float)
    seeds = _numbers("seeds", told.seeds, int)
    methods = METHODS if told.methods == ["all"] else told.methods
    for seed, ratio, method in itertools.product(seeds, ratios or [None], methods):
        config = options.config_for(method)
        config.seed = seed
        if ratio is not None:
            config.data.mismatch = ratio
        validate(config)
        yield config


def _numbers(flag: str, words: list[str], kind: Callable) -> list:
    try:
        return [kind(word) for word in words]
    except ValueError:
        raise ConfigError(
            f"--{flag}={','.join(words)}: must be numbers with commas between them"
        ) from None


if __name__ == "__main__":
    commandline.run(COMMAND, main)
