"""How much of training is not train steps?  python -m benchmarks.outside.

Ten epochs after pre-training of configs/cifar10.py, the Υ-Model with a WRN-10-2 on
images of 16×16: the share of their time that goes to refreshes, evaluations,
checkpoints and all else between the steps, start-up excluded. Evaluation is as in the
middle of the config's 400 epochs, and, for comparison, after every epoch. Needs the
real CIFAR-10 (`python -m upsilon_jax.data cifar10`); ten minutes on two CPU cores.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile

import ml_collections

import upsilon_jax
from upsilon_jax import runtime
from upsilon_jax.config import load_config
from upsilon_jax.workdir.records import parse
from upsilon_jax.workdir.schema import Result

LIMIT = 0.10
EPOCHS = 10
SETTINGS = {"as in 400 epochs": 8, "after every epoch": 1}  # train.eval_epochs


def config_of(eval_epochs: int, **data) -> ml_collections.ConfigDict:
    """One epoch of pre-training, and ten more."""
    config = load_config("cifar10", "upsilon")
    config.data.update(image_size=16, **data)
    config.model.update(depth=10, width=2, bn_decay=0.95)
    config.train.update(
        epochs=1 + EPOCHS,
        pretrain_epochs=1,
        eval_epochs=eval_epochs,
        report_epochs=1,
    )
    return config


def measure(config: ml_collections.ConfigDict) -> dict[str, float]:
    """Shares of the time of the epochs after pre-training, by what it went to."""
    with (
        tempfile.TemporaryDirectory() as workdir,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        result = parse(Result, upsilon_jax.train(config, workdir), workdir)
    # The first epoch with pseudo-labels compiles its program.
    entries = result.history[2:]
    total = sum(entry.epoch_seconds for entry in entries)
    share = lambda value: sum(map(value, entries)) / total
    return {
        "refresh": share(lambda entry: entry.refresh_seconds),
        "evaluation": share(lambda entry: entry.evaluate_seconds),
        "all outside": 1 - share(lambda entry: entry.train_seconds),
    }


def main() -> None:
    """Prints the shares; exit code 1 if the config's own cadence is above the limit."""
    runtime.setup()
    found = {}
    for name, eval_epochs in SETTINGS.items():
        found[name] = measure(config_of(eval_epochs, data_dir=_data_dir()))
        shares = ", ".join(f"{k} {v:.1%}" for k, v in found[name].items())
        print(f"evaluated {name}: {shares}", flush=True)
    if next(iter(found.values()))["all outside"] > LIMIT:
        sys.exit(f"more than {LIMIT:.0%} of the time is not train steps")


def _data_dir() -> str | None:
    return sys.argv[1] if len(sys.argv) > 1 else None


if __name__ == "__main__":
    main()
