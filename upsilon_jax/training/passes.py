"""Whole passes over a set of images: to refresh pseudo-labels, and to measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from upsilon_jax.inference import evaluate
from upsilon_jax.runtime import sharding
from upsilon_jax.training.setup import REFRESH_KEY, Run
from upsilon_jax.types import Outputs, Predictions, TrainState

# Prediction keeps no activations, so it takes more rows at once than training.
_PREDICT_BATCHES = 4


def predict(
    run: Run, weights: tuple, split: str, indices: np.ndarray, check: Callable
) -> Outputs:
    """Outputs of (params, stats) for images of a split, in order, rows padded.

    `check` is called between batches, and may raise.
    """
    size = min(run.config.train.batch_size * _PREDICT_BATCHES, len(indices))

    def chunks() -> Iterator[jax.Array]:
        for chunk in run.feed.in_order(split, indices, sharding.padded(size, run.mesh)):
            check()
            yield chunk

    return evaluate.predict_all(run.programs.predict, *weights, chunks(), run.mesh)


def refresh(
    run: Run, state: TrainState, epoch: int, check: Callable
) -> tuple[TrainState, dict]:
    """`method.refresh` on predictions of all of D_u; the new state, and diagnostics."""
    live = (state.params, state.stats)
    weights = state.ema if run.method.refresh_with == "ema" else live
    unlabeled = predict(run, weights, "train", run.splits.unlabeled, check)
    num_unlabeled, padded = len(run.splits.unlabeled), len(unlabeled["logits"])
    valid = {k: v[:0] for k, v in unlabeled.items()}
    if len(run.splits.valid):
        valid = predict(run, weights, "train", run.splits.valid, check)
        valid = {k: v[: len(run.splits.valid)] for k, v in valid.items()}
    where = sharding.put_rows(np.arange(padded) < num_unlabeled, run.mesh)
    key = jax.random.fold_in(jax.random.fold_in(run.key, REFRESH_KEY), epoch)
    method_state = run.programs.refresh(
        state, Predictions(unlabeled, valid), where, key
    )
    logits = sharding.fetch(unlabeled["logits"])[:num_unlabeled]
    found = evaluate.describe_imbalance(logits, run.hidden, run.num_classes)
    return state._replace(method=method_state), found


def accuracy(run: Run, weights: tuple, check: Callable) -> float:
    """Of (params, stats) on the test images of the ID classes."""
    test = run.splits.test
    logits = predict(run, weights, "test", test, check)["logits"]
    logits = sharding.fetch(logits)[: len(test)]
    return evaluate.accuracy(logits, run.test_classes[test], run.num_classes)


def final_measures(run: Run, weights: tuple, check: Callable) -> dict[str, Any]:
    """What is worth one pass over all test classes and over D_u."""

    def logits(split, indices):
        outputs = predict(run, weights, split, indices, check)
        return sharding.fetch(outputs["logits"])[: len(indices)]

    test = np.flatnonzero(run.test_classes >= 0)
    return {
        **evaluate.describe_test(
            logits("test", test), run.test_classes[test], run.num_classes
        ),
        "imbalance": evaluate.describe_imbalance(
            logits("train", run.splits.unlabeled), run.hidden, run.num_classes
        ),
    }
