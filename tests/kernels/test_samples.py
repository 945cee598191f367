"""The passes over samples against numpy in float64, whatever rows outside hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax as scipy_softmax

from tests.kernels import transport
from upsilon_jax.kernels import samples

M, K, EPSILON = 60, 5, 0.1
LOG_PROBS = transport.random_log_probs(0, (M, K), 3.0)
G = np.linspace(-20, 20, K)
WHERE = np.arange(M) % 3 != 0


def make(log_probs=LOG_PROBS, where=None):
    where = None if where is None else jnp.asarray(where)
    return samples.make_samples(jnp.asarray(log_probs), where, EPSILON)


def rows(junk):
    return np.where(WHERE[:, None], LOG_PROBS, junk)


@pytest.mark.parametrize("anneal", [1.0, 0.25])
@pytest.mark.parametrize("junk", [None, np.nan, np.inf, -np.inf])
def test_softmax(junk, anneal, x64):
    problem = make() if junk is None else make(rows(junk), WHERE)
    expected = scipy_softmax(anneal * LOG_PROBS / EPSILON + G, axis=1)
    if junk is not None:
        expected[~WHERE] = 0
    p = samples.softmax(problem, jnp.asarray(G), anneal)
    np.testing.assert_allclose(p, expected, rtol=1e-11)
    # A shift cancels out: it need not be the maximum.
    shift = jnp.linspace(-30, 30, M)
    p = samples.softmax(problem, jnp.asarray(G), anneal, shift)
    np.testing.assert_allclose(p, expected, rtol=1e-11)


@pytest.mark.parametrize("junk", [None, np.nan, np.inf, -np.inf])
def test_kernel(junk, x64):
    problem = make() if junk is None else make(rows(junk), WHERE)
    exponent = LOG_PROBS / EPSILON + G
    expected = np.exp(exponent - exponent.max(1, keepdims=True))
    if junk is not None:
        expected[~WHERE] = 0
    matrix, shift = samples.kernel(problem, jnp.asarray(G))
    np.testing.assert_allclose(matrix, expected.T, rtol=1e-11)
    top = LOG_PROBS.max(1) / EPSILON
    inside = slice(None) if junk is None else WHERE
    np.testing.assert_allclose(
        shift[inside], (exponent.max(1) - top)[inside], atol=1e-11
    )


def test_rows_of_minus_infinity_have_no_mass():
    log_probs = LOG_PROBS.astype(np.float32)
    log_probs[7] = -np.inf
    problem = make(log_probs)
    matrix, _ = samples.kernel(problem, jnp.asarray(G, jnp.float32))
    p = samples.softmax(problem, jnp.asarray(G, jnp.float32))
    assert not np.asarray(matrix)[:, 7].any() and not np.asarray(p)[7].any()
    assert np.isfinite(matrix).all() and np.isfinite(p).all()


def test_weights_and_column_maxima():
    some = make(rows(np.inf), WHERE)
    np.testing.assert_allclose(samples.weights(make()), 1 / M, rtol=1e-6)
    np.testing.assert_allclose(samples.weights(some), WHERE / WHERE.sum(), rtol=1e-6)
    maxima = jax.jit(samples.column_maxima)(some)
    np.testing.assert_allclose(maxima, LOG_PROBS[WHERE].max(0), rtol=1e-6)
