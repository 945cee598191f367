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
from upsilon_jax.workdir.schema import Foreign, Imbalance

# Prediction keeps no activations, so it takes more rows at once than training.
_PREDICT_BATCHES = 4
# Labeled images that say how images of the classes score; they are in random order.
_MOST_LABELED = 1000


def refresh(
    run: Run, state: TrainState, epoch: int
) -> tuple[TrainState, Imbalance | None, Foreign | None]:
    """`method.refresh` on predictions of all of D_u (Algorithm 1, line 7).

    Args:
      run: what is trained.
      state: its state; the method says whether live or EMA weights predict.
      epoch: epochs that are finished.

    Returns:
      The state with the method's part renewed; how uneven plain labels were, where the
      truth is known; and how much of D_u seems to be foreign.
    """
    live = (state.params, state.stats)
    weights = state.ema if run.method.refresh_with == "ema" else live
    outputs, where = predict_sets(run, weights)
    foreign = metrics.measure_foreign(outputs, run.splits.num_classes, where)
    if not run.method.refresh_reads_labeled:
        outputs = outputs._replace(labeled=None)
    key = jax.random.fold_in(jax.random.fold_in(run.key, REFRESH_KEY), epoch)
    assert run.programs.refresh  # a method without one is never due
    method_state = run.programs.refresh(state, outputs, where, key)
    state = state._replace(method=method_state)
    return state, _imbalance(run, outputs), foreign


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


def predict_sets(run: Run, weights: tuple) -> tuple[Predictions, jax.Array]:
    """Outputs for D_u, validation and some labeled images; and which rows of D_u count.

    Rows of the first are padded, those of the others are not.
    """
    splits, labeled = run.splits, run.splits.labeled[:_MOST_LABELED]
    unlabeled = predict(run, weights, "train", splits.unlabeled)
    cut = lambda outputs, count: {k: v[:count] for k, v in outputs.items()}
    valid = cut(unlabeled, 0)
    if len(splits.valid):
        whole = predict(run, weights, "train", splits.valid)
        valid = cut(whole, len(splits.valid))
    # In chunks of the same size as D_u: no further program is compiled.
    known = predict(run, weights, "train", labeled, like=splits.unlabeled)
    num_unlabeled, padded = len(splits.unlabeled), len(unlabeled["logits"])
    where = sharding.put_rows(np.arange(padded) < num_unlabeled, run.mesh)
    return Predictions(unlabeled, valid, cut(known, len(labeled))), where


def _imbalance(run: Run, outputs: Predictions) -> Imbalance | None:
    """Of plain labels, where the truth is known."""
    if not run.truth_is_known:
        return None
    logits = sharding.fetch(outputs.unlabeled["logits"])[: len(run.hidden)]
    return metrics.measure_imbalance(logits, run.hidden, run.splits.num_classes)


def predict(
    run: Run,
    weights: tuple,
    split: str,
    indices: np.ndarray,
    like: np.ndarray | None = None,
) -> Outputs:
    """Outputs of (params, stats) for images of a split, in order, rows padded.

    `like` are other images whose chunks have the right size already.
    """
    most = len(indices if like is None else like)
    size = min(run.config.train.batch_size * _PREDICT_BATCHES, most)
    chunks = run.feed.in_order(split, indices, sharding.padded(size, run.mesh))
    params, stats = weights
    return predict_all(run.programs.predict, params, stats, chunks, run.mesh)


def predict_images(run: Run, weights: tuple, images: np.ndarray) -> Outputs:
    """The same of images that are no part of the data, uint8 [m, H, W, C]."""
    size = run.config.train.batch_size * _PREDICT_BATCHES
    size = sharding.padded(min(size, len(images)), run.mesh)
    chunks = (
        sharding.put_rows(np.take(images, rows, axis=0, mode="clip"), run.mesh)
        for rows in np.arange(-(-len(images) // size) * size).reshape(-1, size)
    )
    params, stats = weights
    return predict_all(run.programs.predict, params, stats, chunks, run.mesh)
