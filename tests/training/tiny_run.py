"""Runs on the embedded digits, small enough to take a second or two each."""

import json
from typing import NamedTuple

import jax
import numpy as np
import pytest

import upsilon_jax
from configs import digits
from upsilon_jax.runtime import interrupts
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.training import loop, setup

STEPS_PER_EPOCH = 3


def tiny(method="upsilon", **changes):
    """Six epochs of three steps; labels from epoch 2 on, low thresholds to get some."""
    config = digits.get_config(method)
    # without augmentation the steps compile in half the time
    config.data.update(num_unlabeled=96, labels_per_class=5, augmentation="none")
    config.model.update(depth=10, width=1, bn_decay=0.5)
    config.train.update(
        epochs=6, pretrain_epochs=2, batch_size=32, save_epochs=1, report_epochs=2
    )
    if "ood_threshold" in config.method:
        config.method.update(threshold=0.35, ood_threshold=0.3)
    config.update_from_flattened_dict(changes)
    return config


def baseline(**changes):
    return tiny("baseline", **{"train.epochs": 2} | changes)


class Watched(NamedTuple):
    """A whole run, and what its semi-supervised steps were given."""

    result: dict
    run: setup.Run
    labels: list  # of P before each step
    batches: list


def watch(workdir, *, resident, **changes):
    """Trains `tiny`, with images on the device or read batch by batch."""
    runs, labels, batches = [], [], []

    def open_source(config, original=setup.open_source):
        return original(config)._replace(resident=resident)

    def prepare(config, original=loop.prepare, **kwargs):
        run = original(config, **kwargs)
        runs.append(run)

        def spy(state, batch, *rest):
            labels.append(np.asarray(state.method.label))
            batches.append(jax.device_get(batch))
            return run.programs.semi_supervised(state, batch, *rest)

        return run._replace(programs=run.programs._replace(semi_supervised=spy))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "open_source", open_source)
        patch.setattr(loop, "prepare", prepare)
        result = upsilon_jax.train(tiny(**changes), workdir)
    return Watched(result, runs[0], labels, batches)


def interrupt_after(patch, looks):
    """Lets a signal come before the n-th look for one."""
    left = iter(range(looks))

    def check():
        if next(left, None) is None:
            raise Interrupted(15)

    patch.setattr(interrupts, "check", check)


def without_seconds(history):
    return [
        {k: v for k, v in entry.items() if not k.endswith("_seconds")}
        for entry in history
    ]


def digests(folder):
    """Of the weights of each run inside a folder, by the name of the run."""
    results = sorted(folder.rglob("result.json"))
    return {p.parent.name: json.loads(p.read_text())["params_digest"] for p in results}
