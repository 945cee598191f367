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


def problem_and_shares(junk, anneal=1.0):
    """Samples, of which some may hold junk and not take part, and their softmax."""
    expected = scipy_softmax(anneal * LOG_PROBS / EPSILON + G, axis=1)
    if junk is None:
        return make(), expected
    return make(rows(junk), WHERE), expected * WHERE[:, None]


@pytest.mark.parametrize("anneal", [1.0, 0.25])
@pytest.mark.parametrize("junk", [None, np.nan, np.inf, -np.inf])
def test_softmax(junk, anneal, x64):
    problem, expected = problem_and_shares(junk, anneal)
    p = samples.softmax(problem, jnp.asarray(G), anneal)
    np.testing.assert_allclose(p, expected, rtol=1e-11)
    p = samples.softmax(problem, jnp.asarray(G), anneal, weight=0.125)
    np.testing.assert_allclose(p, expected / 8, rtol=1e-11)


@pytest.mark.parametrize("junk", [None, np.nan, np.inf, -np.inf])
def test_masses(junk, x64):
    problem, expected = problem_and_shares(junk)
    q = samples.masses(problem, samples.exponents(problem), jnp.asarray(G))
    count = M if junk is None else WHERE.sum()
    np.testing.assert_allclose(q, expected.sum(0) / count, rtol=1e-11)


def test_rows_of_minus_infinity_have_no_mass():
    log_probs = LOG_PROBS.astype(np.float32)
    log_probs[7] = -np.inf
    problem, g = make(log_probs), jnp.asarray(G, jnp.float32)
    p = np.asarray(samples.softmax(problem, g))
    assert np.isfinite(p).all() and not p[7].any()
    q = samples.masses(problem, samples.exponents(problem), g)
    np.testing.assert_allclose(q, p.sum(0) / M, rtol=1e-5)


def test_weight_and_column_maxima():
    some = make(rows(np.inf), WHERE)
    np.testing.assert_allclose(make().weight, 1 / M, rtol=1e-6)
    np.testing.assert_allclose(some.weight, 1 / WHERE.sum(), rtol=1e-6)
    maxima = jax.jit(samples.column_maxima)(some)
    np.testing.assert_allclose(maxima, LOG_PROBS[WHERE].max(0), rtol=1e-6)
