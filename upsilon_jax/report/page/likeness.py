"""How much images are alike, by the distance of their features."""

from __future__ import annotations

import numpy as np

_SAME = 0.25  # nearer than this share of the usual distance is nearly the same


def finite(features: np.ndarray) -> np.ndarray:
    """As float32; what float16 could not hold becomes its largest number."""
    limit = float(np.finfo(np.float16).max)
    return np.nan_to_num(features.astype(np.float32), posinf=limit, neginf=-limit)


def distances(features: np.ndarray) -> np.ndarray:
    """[n, n] |x_i - x_j| of the rows of x [n, d]."""
    x = finite(features).astype(np.float64)  # the difference of large numbers is taken
    square = np.sum(x * x, axis=1)
    return np.sqrt(np.maximum(square[:, None] + square[None, :] - 2 * x @ x.T, 0))


def same_below(distance: np.ndarray) -> float:
    """The distance below which two images are nearly the same picture.

    It is a quarter of the median of the distances [n, n] of different images.
    """
    others = distance[~np.eye(len(distance), dtype=bool)]
    return _SAME * float(np.median(others)) if others.size else 0.0


def distance_to_mean(features: np.ndarray) -> np.ndarray:
    """[n] how far each row is from the mean of all: the least is the most typical."""
    features = finite(features)
    return np.linalg.norm(features - features.mean(axis=0), axis=1)
