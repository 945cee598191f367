"""What the logits of an image say, in the columns that people read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Columns(NamedTuple):
    """A row for each image; label -1, no cluster and NaN where a logit is not finite.

    `workdir.findings.Seen` has the same columns.
    """

    label: np.ndarray  # [n] int32, the most probable ID class
    probability: np.ndarray  # [n] float32, of that class among the ID classes
    id_score: np.ndarray  # [n] float32, ID confidence over all T outputs
    log_odds: np.ndarray  # [n] float32, of the ID confidence: it does not saturate
    cluster: np.ndarray  # [n] int32, the cluster if it beats every ID class, else -1


def columns(logits: np.ndarray, num_classes: int) -> Columns:
    """Reads logits [n, T] over C = `num_classes` ID classes and T - C clusters.

    With y = argmax_{k<C} z_k (ties: the lowest), as `kernels.confidence` has it,

        probability = 1 / Σ_{k<C} exp(z_k - z_y)
        log_odds    = z_y - logsumexp_{k≠y} z_k
        id_score    = 1 / (1 + exp(-log_odds))
        cluster     = argmax_k z_k - C, if that is one.
    """
    logits = np.asarray(logits, np.float64)
    if logits.ndim != 2 or not 1 <= num_classes <= logits.shape[1]:
        raise ValueError(
            f"logits must be [n, T ≥ num_classes ≥ 1], got {logits.shape} for "
            f"num_classes = {num_classes}"
        )
    finite = np.isfinite(logits).all(axis=1)
    z = np.where(finite[:, None], logits, 0.0)
    label = z[:, :num_classes].argmax(axis=1)
    rows = np.arange(len(z))
    own = z[rows, label]
    probability = 1 / np.exp(z[:, :num_classes] - own[:, None]).sum(axis=1)
    others = z.copy()
    others[rows, label] = -np.inf
    log_odds = own - np.logaddexp.reduce(others, axis=1)
    # A confidence is never 0, in float32 either.
    score = np.exp(-np.logaddexp(0, -log_odds)).clip(np.finfo(np.float32).tiny)
    top = z.argmax(axis=1)
    known = lambda column: np.where(finite, column, np.nan).astype(np.float32)
    chosen = lambda where, column: np.where(where, column, -1).astype(np.int32)
    return Columns(
        label=chosen(finite, label),
        probability=known(probability),
        id_score=known(score),
        log_odds=known(log_odds),
        cluster=chosen(finite & (top >= num_classes), top - num_classes),
    )
