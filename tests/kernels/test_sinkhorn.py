"""`sinkhorn` against float64 oracles, closed forms, invariances and its edge cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from tests.kernels import transport
from upsilon_jax.kernels.sinkhorn import sinkhorn

EPSILON = 0.05
M, K = 300, 7  # one shape for most tests: every other one compiles anew


def solve(log_probs, **options):
    return np.asarray(sinkhorn(log_probs, **options))


def log_domain(log_probs, num_iters, epsilon=EPSILON):
    """The definition: g from f = 0, then f from g, in float64 and the log domain."""
    exponent = np.asarray(log_probs, np.float64) / epsilon
    f = np.zeros(len(exponent))
    for _ in range(num_iters):
        g = -np.log(exponent.shape[1]) - logsumexp(exponent + f[:, None], axis=0)
        f = -np.log(exponent.shape[0]) - logsumexp(exponent + g, axis=1)
    return np.exp(exponent + f[:, None] + g)


def random_log_probs(seed, scale=1.0, shape=(M, K), dtype=np.float32):
    return transport.random_log_probs(seed, shape, scale).astype(dtype)


PEAKED = {
    "scale 2": random_log_probs(0, 2),
    "scale 12": random_log_probs(1, 12),
    "±80": log_softmax(
        80 * np.sign(np.random.default_rng(2).standard_normal((M, K))), axis=1
    ).astype(np.float32),
    "spread 1e4": random_log_probs(3, 3000),
    "rare cluster": log_softmax(
        np.random.default_rng(4).standard_normal((M, K)) - 60 * (np.arange(K) == 2), 1
    ).astype(np.float32),
    "outlier rows": random_log_probs(5)
    * np.where(np.arange(M) < 3, 200, 1).astype(np.float32)[:, None],
}


@pytest.mark.parametrize("name", PEAKED)
@pytest.mark.parametrize("num_iters", [1, 2, 300])
def test_equals_log_domain_iteration(name, num_iters):
    log_probs = PEAKED[name]
    q = solve(log_probs, num_iters=num_iters)
    # log P / ε reaches 1e3 (1e5 at a spread of 1e4): rounding it moves Q by 1e-4 (1e-2)
    # relatively, and the rare cluster and outliers have entries of that size.
    atol = 1e-4 if np.ptp(log_probs) > 30 else 1e-6
    np.testing.assert_allclose(
        M * q, M * log_domain(log_probs, num_iters), rtol=1e-4, atol=atol
    )
    np.testing.assert_allclose(M * q.sum(1), 1, atol=1e-6)  # rows are always exact


@pytest.mark.parametrize("name", PEAKED)
def test_float64_equals_log_domain_iteration(name, x64):
    log_probs = PEAKED[name].astype(np.float64)
    q = solve(log_probs, num_iters=300)
    assert q.dtype == np.float64
    expected = log_domain(log_probs, 300)
    np.testing.assert_allclose(q, expected, rtol=1e-8, atol=1e-14)


def test_folds_scalings_that_leave_the_range():
    # Two far groups of samples want the clusters 2:1, so g moves by log 2 in each of
    # many iterations, far beyond what float32 holds as a factor.
    near, far = np.array([0.0, -20.0]), np.array([-20.0, 0.0])
    log_probs = np.repeat([near, far], [80, 40], axis=0).astype(np.float32)
    expected = log_domain(log_probs, 800)
    assert not np.allclose(120 * expected, 120 * log_domain(log_probs, 100), atol=0.01)
    q = solve(log_probs, num_iters=800)
    np.testing.assert_allclose(120 * q, 120 * expected, rtol=1e-3, atol=1e-4)


def test_pot():
    log_probs = random_log_probs(0)
    q = solve(log_probs, num_iters=3000)
    expected = transport.pot(log_probs, EPSILON, stop=1e-13)
    # Relative to the mass of a row. log P / ε is about 50, rounded at 6e-8 · 50 = 3e-6.
    np.testing.assert_allclose(M * q, M * expected, rtol=1e-5, atol=1e-5)


def test_two_by_two_closed_form(x64):
    p = np.array([[0.6, 0.4], [0.7, 0.3]])
    root = np.sqrt((p[0, 0] * p[1, 1] / (p[0, 1] * p[1, 0])) ** (1 / EPSILON))
    top = 0.5 * root / (1 + root)
    expected = [[top, 0.5 - top], [0.5 - top, top]]
    np.testing.assert_allclose(sinkhorn(np.log(p), num_iters=2000), expected, rtol=1e-9)


def test_marginals_and_invariances_at_convergence():
    log_probs = random_log_probs(0, 0.5)
    converged = lambda x: M * solve(x, num_iters=1000)
    q = converged(log_probs)
    np.testing.assert_allclose(q.sum(0), M / K, rtol=1e-5)
    rows, columns = np.random.default_rng(1).permutation(M), [3, 0, 5, 1, 4, 2, 6]
    close = lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5)
    close(converged(log_probs[rows][:, columns]), q[rows][:, columns])
    close(converged(log_probs + np.linspace(-2, 2, M, dtype=np.float32)[:, None]), q)
    close(converged(log_probs + np.linspace(-1, 1, K, dtype=np.float32)), q)


def test_large_epsilon_gives_the_product_measure():
    q = solve(random_log_probs(0), epsilon=1e6, num_iters=3)
    np.testing.assert_allclose(q, 1 / (M * K), rtol=1e-5)


def test_equal_rows_are_exactly_uniform():
    q = solve(np.full((1001, 13), -np.log(13.0)))
    np.testing.assert_allclose(q, 1 / (1001 * 13), rtol=1e-6)
    assert np.ptp(q) == 0


@pytest.mark.parametrize("junk", [0.0, -1e30, np.nan, np.inf, -np.inf])
def test_where_equals_dropping_rows_whatever_they_hold(junk):
    log_probs = random_log_probs(0, 3)
    where = np.random.default_rng(1).random(M) < 0.4
    q = solve(np.where(where[:, None], log_probs, np.float32(junk)), where=where)
    assert not q[~where].any()
    expected = log_domain(log_probs[where], 32)
    m = where.sum()
    np.testing.assert_allclose(m * q[where], m * expected, rtol=1e-4, atol=1e-6)


def test_edges():
    transport.assert_edges(sinkhorn, (M, K))


def test_minus_infinity_gets_no_mass():
    log_probs = random_log_probs(0)
    log_probs[3, 1] = log_probs[5] = log_probs[:, 2] = -np.inf
    q = solve(log_probs)
    assert np.isfinite(q).all() and not q[np.isinf(log_probs)].any()
    np.testing.assert_allclose(M * np.delete(q, 5, 0).sum(1), 1, atol=1e-6)


def test_finite_at_the_ends_of_the_float_range():
    top = np.finfo(np.float32).max
    log_probs = np.array([[top, -top, 0], [-top, -top, -top], [1e30, 0, -1e30]], "f")
    q = solve(log_probs)
    assert np.isfinite(q).all()
    np.testing.assert_allclose(3 * q.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_computes_in_float32_at_least(dtype):
    log_probs = jnp.asarray(random_log_probs(0), dtype)
    q = solve(log_probs)
    assert q.dtype == np.float32
    expected = log_domain(np.asarray(log_probs, np.float32), 32)
    np.testing.assert_allclose(M * q, M * expected, rtol=1e-5, atol=1e-6)


def test_gradient(x64):
    log_probs = random_log_probs(0, 0.3, (9, 3), np.float64)
    where = np.arange(9) != 4
    cost = np.random.default_rng(1).standard_normal((9, 3))
    loss = jax.jit(lambda x: (sinkhorn(x, num_iters=3, where=where) * cost).sum())
    grad = np.asarray(jax.grad(loss)(log_probs))
    assert not grad[4].any()
    step = 1e-6
    for direction in np.random.default_rng(2).standard_normal((5, 9, 3)):
        slope = loss(log_probs + step * direction) - loss(log_probs - step * direction)
        np.testing.assert_allclose((grad * direction).sum(), slope / (2 * step), 1e-6)
        tangent = jax.jvp(loss, (log_probs,), (direction,))[1]
        np.testing.assert_allclose(tangent, (grad * direction).sum(), rtol=1e-9)


SQUARES_GRAD = jax.jit(jax.grad(lambda x, w: (sinkhorn(x, where=w) ** 2).sum()))


@pytest.mark.parametrize("name", PEAKED)
def test_gradient_is_finite(name):
    grad = SQUARES_GRAD(PEAKED[name], np.ones(M, bool))
    assert np.isfinite(grad).all()
    assert not np.asarray(SQUARES_GRAD(PEAKED[name], np.zeros(M, bool))).any()


def test_vmap():
    log_probs = np.stack([PEAKED[name] for name in PEAKED])
    batched = np.asarray(jax.vmap(sinkhorn)(log_probs))
    for one, q in zip(log_probs, batched, strict=True):
        np.testing.assert_allclose(M * q, M * solve(one), rtol=1e-4, atol=1e-5)


def test_rows_sharded_over_devices_need_all_reduces_only(rows_over_8_devices):
    transport.assert_rows_on_devices_need_all_reduces_only(
        sinkhorn, rows_over_8_devices, atol=1e-4
    )


def test_traces_once():
    traces = []
    traced = jax.jit(lambda x: (traces.append(0), sinkhorn(x))[1])
    for name in PEAKED:
        traced(PEAKED[name])
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((4, 3), {"epsilon": 0}),
        ((4, 3), {"epsilon": -1.0}),
        ((4, 3), {"epsilon": float("nan")}),
        ((4, 3), {"num_iters": 0}),
        ((4,), {}),
        ((2, 4, 3), {}),
        ((4, 0), {}),
        ((4, 3), {"where": np.ones(3, bool)}),
        ((4, 3), {"where": np.ones((4, 1), bool)}),
    ],
)
def test_bad_arguments(shape, options):
    with pytest.raises(ValueError, match="must be"):
        sinkhorn(jnp.zeros(shape), **options)


@pytest.mark.parametrize("num_iters", [1.5, float("nan"), 10**400])
def test_iterations_are_whole(num_iters):
    with pytest.raises(ValueError, match="num_iters must be in .* and whole"):
        sinkhorn(np.zeros((4, 2)), num_iters=num_iters)
