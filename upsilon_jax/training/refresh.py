"""Whole passes over images between the steps: new pseudo-labels, and measurements."""

from __future__ import annotations

from typing import Any

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
    outputs, where = _predict_sets(run, weights)
    foreign = metrics.measure_foreign(outputs, run.splits.num_classes, where)
    if not run.method.refresh_reads_labeled:
        outputs = outputs._replace(labeled=None)
    key = jax.random.fold_in(jax.random.fold_in(run.key, REFRESH_KEY), epoch)
    method_state = run.programs.refresh(state, outputs, where, key)
    state = state._replace(method=method_state)
    return state, _imbalance(run, outputs), foreign


def accuracy(run: Run, weights: tuple) -> float:
    """Of (params, stats) on the test images of the ID classes."""
    test = run.splits.test
    logits = _logits(run, weights, "test", test)
    return metrics.accuracy(logits, run.test_classes[test], run.splits.num_classes)


def final_measures(run: Run, weights: tuple) -> dict[str, Any]:
    """What is worth one pass over all test classes and over D_u: fields of a result."""
    test, num_classes = np.flatnonzero(run.test_classes >= 0), run.splits.num_classes
    logits, label = _logits(run, weights, "test", test), run.test_classes[test]
    confusion = metrics.confusion(logits, label, num_classes, len(run.splits.classes))
    outputs, where = _predict_sets(run, weights)
    return {
        "confusion": confusion.tolist(),
        "auroc": metrics.id_auroc(logits, label, num_classes),
        "imbalance": _imbalance(run, outputs),
        "foreign": metrics.measure_foreign(outputs, num_classes, where),
    }


def _imbalance(run: Run, outputs: Predictions) -> Imbalance | None:
    """Of plain labels, where the truth is known."""
    if not run.truth_is_known:
        return None
    logits = sharding.fetch(outputs.unlabeled["logits"])[: len(run.hidden)]
    return metrics.measure_imbalance(logits, run.hidden, run.splits.num_classes)


def _predict_sets(run: Run, weights: tuple) -> tuple[Predictions, jax.Array]:
    """Outputs for D_u, validation and some labeled images; and which rows of D_u count.

    Rows of the first are padded, those of the others are not.
    """
    splits, labeled = run.splits, run.splits.labeled[:_MOST_LABELED]
    unlabeled = _predict(run, weights, "train", splits.unlabeled)
    cut = lambda outputs, count: {k: v[:count] for k, v in outputs.items()}
    valid = cut(unlabeled, 0)
    if len(splits.valid):
        valid = _predict(run, weights, "train", splits.valid)
        valid = cut(valid, len(splits.valid))
    # In chunks of the same size as D_u: no further program is compiled.
    known = _predict(run, weights, "train", labeled, like=splits.unlabeled)
    num_unlabeled, padded = len(splits.unlabeled), len(unlabeled["logits"])
    where = sharding.put_rows(np.arange(padded) < num_unlabeled, run.mesh)
    return Predictions(unlabeled, valid, cut(known, len(labeled))), where


def _logits(run: Run, weights: tuple, split: str, indices: np.ndarray) -> np.ndarray:
    """[n, T] on the host of every process."""
    outputs = _predict(run, weights, split, indices)
    return sharding.fetch(outputs["logits"])[: len(indices)]


def _predict(
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
    return predict_all(run.programs.predict, *weights, chunks, run.mesh)
