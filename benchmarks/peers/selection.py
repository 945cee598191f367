"""Rebalanced pseudo-labels as one writes them in numpy, and with `jnp.sort`.

All give [M] bool, the rows selected: the N most confident candidates of every class.
Ties at the cut are left as they fall.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _candidates(logits: np.ndarray, threshold: float):
    """Class and log-odds of every row, and whether its confidence is high enough."""
    label = logits.argmax(axis=1)
    top = logits.max(axis=1)
    others = logits - top[:, None]
    np.exp(others, out=others)
    others[np.arange(len(label)), label] = 0
    with np.errstate(divide="ignore"):  # all others may underflow
        log_odds = -np.log(others.sum(axis=1))
    return label, log_odds, log_odds > np.log(threshold / (1 - threshold))


def lexsort(logits: np.ndarray, threshold: float) -> np.ndarray:
    """Sorts candidates by class, then by log-odds, and takes the first N of each."""
    label, log_odds, candidate = _candidates(logits, threshold)
    rows = np.flatnonzero(candidate)
    order = rows[np.lexsort((-log_odds[rows], label[rows]))]
    count = np.bincount(label[rows], minlength=logits.shape[1])
    rank = np.arange(len(order)) - (np.cumsum(count) - count)[label[order]]
    selected = np.zeros(len(logits), bool)
    selected[order[rank < count.min()]] = True
    return selected


def partition(logits: np.ndarray, threshold: float) -> np.ndarray:
    """Finds the N-th largest log-odds of each class by `numpy.partition`."""
    label, log_odds, candidate = _candidates(logits, threshold)
    parts = [log_odds[candidate & (label == y)] for y in range(logits.shape[1])]
    number = min(map(len, parts))
    if not number:
        return np.zeros(len(logits), bool)
    cut = np.array([np.partition(part, -number)[-number] for part in parts])
    return candidate & (log_odds >= cut[label])


@partial(jax.jit, static_argnums=1)
def sort(logits: jax.Array, threshold: float) -> jax.Array:
    """Sorts every class's column of [M, C] log-odds, as one vectorises it first."""
    label = jnp.argmax(logits, axis=1)
    own = label[:, None] == jnp.arange(logits.shape[1])[None, :]
    others = jax.nn.logsumexp(logits, axis=1, where=~own)
    log_odds = logits.max(axis=1) - others
    candidate = log_odds > jnp.log(threshold / (1 - threshold))
    scores = jnp.where(own & candidate[:, None], log_odds[:, None], -jnp.inf)
    number = jnp.isfinite(scores).sum(axis=0).min()
    cut = jnp.sort(scores, axis=0)[len(logits) - number]
    return candidate & (log_odds >= cut[label]) & (number > 0)
