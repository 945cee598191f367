"""The quasi-Newton steps of `balance`, on their own."""

import jax.numpy as jnp
import numpy as np

from tests.kernels import transport
from upsilon_jax.kernels import balance, quasi_newton, relaxed, samples

M, K, EPSILON = 500, 6, 0.05


def test_ends_at_the_solution_with_a_hessian_of_few_samples(x64):
    log_probs = transport.random_log_probs(0, (M, K), 0.2)
    problem = samples.make_samples(jnp.asarray(log_probs), None, EPSILON)
    p = samples.softmax(problem, jnp.zeros(K))[::5]
    target = jnp.full(K, 1 / K)
    pairs = p.T @ p / len(p)
    columns = relaxed.Columns(target, None, K)
    g, error = quasi_newton.quasi_newton(problem, columns, jnp.zeros(K), pairs, 1e-11)
    assert error <= 1e-11
    q = samples.softmax(problem, g, weight=1 / M)
    np.testing.assert_allclose(q.sum(0), target, atol=1e-11)
    np.testing.assert_allclose(q, balance(log_probs, tolerance=1e-11), atol=1e-11)


def test_cholesky_of_the_hessian(x64):
    p = np.random.default_rng(0).dirichlet(np.ones(K), 50)
    pairs = p.T @ p / len(p)
    lower = np.asarray(quasi_newton.cholesky(jnp.asarray(pairs)))
    expected = np.diag(pairs.sum(1)) - pairs + 1 / K**2
    np.testing.assert_allclose(lower @ lower.T, expected, atol=1e-14)


def test_a_hessian_that_is_none_gives_the_step_of_sinkhorn():
    for pairs in (np.full((K, K), np.nan), np.diag(np.full(K, -1.0)) + 1):
        lower = np.asarray(quasi_newton.cholesky(jnp.asarray(-pairs, jnp.float32)))
        assert np.isfinite(lower).all()
    lower = quasi_newton.cholesky(jnp.full((K, K), jnp.nan))
    np.testing.assert_allclose(lower @ lower.T, np.eye(K) / K, rtol=1e-6)


def test_cholesky_where_masses_are_unlike(x64):
    x = np.random.default_rng(0).standard_normal((50, K)) - 7 * np.arange(K)
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)  # masses from 1 to 1e-15
    pairs = p.T @ p / len(p)
    extra = np.diag(pairs.sum(1)) - np.outer(pairs.sum(1), pairs.sum(1))
    lower = np.asarray(quasi_newton.cholesky(jnp.asarray(pairs), curvature=extra))
    expected = np.diag(pairs.sum(1)) - pairs + extra
    found = lower @ lower.T
    # They agree but for the null vector, which is made regular.
    shift = np.outer(np.diag(expected), np.diag(expected)) / np.diag(expected).sum()
    np.testing.assert_allclose(found, expected + shift, rtol=1e-9)
