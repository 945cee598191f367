"""Images of noise, and what their tests share."""

import numpy as np


def noise(batch, shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (batch, *shape)).astype(np.uint8)


def planar(images):
    return np.moveaxis(np.asarray(images), -1, 1)


def within(rate, probability, n):
    """Five standard deviations of the mean of n draws."""
    return abs(rate - probability) < 5 * np.sqrt(probability * (1 - probability) / n)
