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

from absl import flags

from upsilon_jax import commandline
from upsilon_jax.methods import METHODS
from upsilon_jax.training.seeds import train

commandline.define_config()
WORKDIR = flags.DEFINE_string("workdir", None, "Default: runs/sweep-NAME.")
NAMES = flags.DEFINE_list(
    "methods", ["baseline", "pl", "upsilon"], 'Names of methods, or "all".'
)
MISMATCH = flags.DEFINE_list(
    "mismatch", None, "Shares of foreign images, 0 to 1; default: the config's."
)
SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2", "3", "4"], "Seeds.")


def main() -> None:
    """Trains what is not trained yet."""
    root = pathlib.Path(WORKDIR.value or f"runs/sweep-{commandline.config_name()}")
    ratios = MISMATCH.value or [commandline.get_config().data.mismatch]
    methods = METHODS if NAMES.value == ["all"] else NAMES.value
    combinations = list(itertools.product(SEEDS.value, ratios, methods))
    for number, (seed, mismatch, method) in enumerate(combinations, start=1):
        config = commandline.get_config_for(method)
        config.seed = int(seed)
        config.data.mismatch = None if mismatch is None else float(mismatch)
        name = commandline.run_name(config)
        sys.stderr.write(f"[{number}/{len(combinations)}] {name}\n")
        result = train(config, root / name)
        accuracy = result["accuracy"]
        sys.stderr.write(
            f"    {result['status']}"
            + (f", accuracy {accuracy:.2%}\n" if accuracy is not None else "\n")
        )
    sys.stderr.write(f"the table: python -m upsilon_jax.report {root}\n")


if __name__ == "__main__":
    commandline.run(main)
