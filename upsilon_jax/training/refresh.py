"""Whole passes over images between the steps: new pseudo-labels, and measurements."""

from __future__ import annotations

import time

import jax
import numpy as np

from upsilon_jax.inference import metrics
from upsilon_jax.inference.predict import predict_all
from upsilon_jax.runtime import sharding
from upsilon_jax.training.setup import REFRESH_KEY, Run
from upsilon_jax.types import Outputs, Predictions, TrainState
from upsilon_jax.workdir.schema import Imbalance

# Prediction keeps no activations, so it takes more rows at once than training.
_PREDICT_BATCHES = 4


def refresh(
    run: Run, state: TrainState, epoch: int
) -> tuple[TrainState, Imbalance | None]:
    """`method.refresh` on predictions of all of D_u (Algorithm 1, line 7).

    Args:
      run: what is trained.
      state: its state; the method says whether live or EMA weights predict.
      epoch: epochs that are finished.

    Returns:
      The state with the method's part renewed, and how uneven plain labels were, where
      the truth is known.
    """
    live = (state.params, state.stats)
    weights = state.ema if run.method.refresh_with == "ema" else live
    unlabeled = predict(run, weights, "train", run.splits.unlabeled)
    valid = {k: v[:0] for k, v in unlabeled.items()}
    if len(run.splits.valid):
        valid = predict(run, weights, "train", run.splits.valid)
        valid = {k: v[: len(run.splits.valid)] for k, v in valid.items()}
    num_unlabeled, padded = len(run.splits.unlabeled), len(unlabeled["logits"])
    where = sharding.put_rows(np.arange(padded) < num_unlabeled, run.mesh)
    key = jax.random.fold_in(jax.random.fold_in(run.key, REFRESH_KEY), epoch)
    outputs = Predictions(unlabeled, valid)
    method_state = run.programs.refresh(state, outputs, where, key)
    state = state._replace(method=method_state)
    if not run.truth_is_known:
        return state, None
    logits = sharding.fetch(unlabeled["logits"])[:num_unlabeled]
    return state, metrics.measure_imbalance(logits, run.hidden, run.splits.num_classes)


def accuracy(run: Run, weights: tuple) -> float:
    """Of (params, stats) on the test images of the ID classes."""
    test = run.splits.test
    logits = sharding.fetch(predict(run, weights, "test", test)["logits"])[: len(test)]
    return metrics.accuracy(logits, run.test_classes[test], run.splits.num_classes)


def seconds_of_image(run: Run, state: TrainState) -> float:
    """How long the prediction of an image takes, compilation left out."""
    chunk = run.splits.unlabeled[: run.config.train.batch_size * _PREDICT_BATCHES]
    for _ in range(2):  # the first compiles
        start = time.monotonic()
        outputs = predict(run, (state.params, state.stats), "train", chunk)
        jax.block_until_ready(outputs)
    return (time.monotonic() - start) / len(chunk)


def predict(run: Run, weights: tuple, split: str, indices: np.ndarray) -> Outputs:
    """Outputs of (params, stats) for images of a split, in order, rows padded."""
    size = min(run.config.train.batch_size * _PREDICT_BATCHES, len(indices))
    chunks = run.feed.in_order(split, indices, sharding.padded(size, run.mesh))
    return predict_all(run.programs.predict, *weights, chunks, run.mesh)
