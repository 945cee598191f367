"""`balance` against POT, the linear programme and its own definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import log_softmax

from tests.kernels import transport
from upsilon_jax.kernels.balance import balance
from upsilon_jax.kernels.sinkhorn import sinkhorn

M, K = 400, 10  # one shape for most tests: every other one compiles anew


def column_error(q):
    return np.abs(q.shape[1] * np.asarray(q, np.float64).sum(0) - 1).max()


def random_log_probs(seed, shape=(M, K), **options):
    return transport.random_log_probs(seed, shape, **options)


def one_hot(shares):
    hot = np.eye(K)[np.random.default_rng(9).choice(K, M, p=shares)]
    return log_softmax(80 * hot, axis=1)


CASES = {  # log_probs and the number of rows that take part
    "mild": (random_log_probs(0), M),
    "peaked": (random_log_probs(1, scale=12), M),
    "saturated": (random_log_probs(2, scale=100), M),
    "spread of 1e4": (random_log_probs(3, scale=3000), M),
    "rare cluster": (random_log_probs(4, bias=-40.0 * (np.arange(K) == 3)), M),
    "empty cluster": (random_log_probs(5, bias=-1e3 * (np.arange(K) == 3)), M),
    "collapsed head": (random_log_probs(6, bias=10.0 * (np.arange(K) == 3)), M),
    "one-hot, unequal": (one_hot([0.4, 0.2, 0.1] + [0.05] * 5 + [0.04, 0.01]), M),
    "ten distinct rows": (np.tile(random_log_probs(7, (10, K), scale=5), (40, 1)), M),
    "fewer rows than clusters": (random_log_probs(8, scale=3), 4),
    "one row": (random_log_probs(9, scale=3), 1),
    "all equal": (np.full((M, K), -np.log(K)), M),
}


def solve(name, **options):
    log_probs, m = CASES[name]
    where = np.arange(M) < m
    q = np.asarray(balance(log_probs, where=where, **options))
    assert not q[m:].any()
    return q[:m]


@pytest.mark.parametrize("name", CASES)
def test_columns_are_balanced_and_rows_exact(name, x64):
    q = solve(name, tolerance=1e-9)
    assert column_error(q) <= 2e-9
    np.testing.assert_allclose(len(q) * q.sum(1), 1, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_float32(name):
    q = solve(name)
    assert q.dtype == np.float32
    # Rounding moves a log P / ε of 1e3 by 1e-4: where few rows have to move, 1e-5 may
    # be out of reach, and the best found is returned.
    assert column_error(q) <= 1e-4
    np.testing.assert_allclose(len(q) * q.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("scale", [12, 100, 1000, 3000])
def test_any_peakedness_converges(scale, x64):
    """Between a smooth problem and one of assignment, the part helps little."""
    for seed in range(20, 30):
        log_probs = random_log_probs(seed, scale=scale)
        assert column_error(balance(log_probs, tolerance=1e-9)) <= 2e-9


def test_pot(x64):
    log_probs = random_log_probs(0)
    q = np.asarray(balance(log_probs, tolerance=1e-11))
    expected = transport.pot(log_probs, 0.05, stop=1e-14)
    np.testing.assert_allclose(M * q, M * expected, atol=1e-9)


def test_is_the_limit_of_sinkhorn(x64):
    log_probs = random_log_probs(0, scale=0.5)
    expected = sinkhorn(log_probs, num_iters=3000)
    q = balance(log_probs, tolerance=1e-12)
    np.testing.assert_allclose(q, expected, rtol=1e-8, atol=1e-14)


def test_small_epsilon_solves_the_linear_programme(x64):
    m, k = 24, 4
    log_probs = random_log_probs(0, (m, k), scale=2)
    rows = np.kron(np.eye(m), np.ones(k))
    columns = np.kron(np.ones(m), np.eye(k))
    exact = linprog(
        -log_probs.ravel(),
        A_eq=np.concatenate([rows, columns]),
        b_eq=np.r_[np.full(m, 1 / m), np.full(k, 1 / k)],
    )
    q = np.asarray(balance(log_probs, epsilon=1e-3, tolerance=1e-9))
    # ε · entropy bounds the excess cost: 1e-3 · log(24 · 4) = 5e-3.
    assert 0 <= -(q * log_probs).sum() - exact.fun + 1e-9 < 5e-3
    np.testing.assert_array_equal(q.argmax(1), exact.x.reshape(m, k).argmax(1))


@pytest.mark.parametrize("junk", [-1e30, np.nan, np.inf, -np.inf])
def test_rows_outside_where_are_inert(junk):
    log_probs = random_log_probs(0, scale=3)
    where = np.random.default_rng(1).random(M) < 0.4
    q = balance(np.where(where[:, None], log_probs, junk), where=where)
    expected = np.asarray(balance(log_probs, where=where))
    np.testing.assert_array_equal(q, expected)
    assert expected[where].any(1).all() and not expected[~where].any()
    assert column_error(expected) <= 2e-5


def unlike_every_16th_row(name):
    """Rows of which those that `balance` starts with are no example."""
    logits = np.random.default_rng(0).standard_normal((1600, K))
    every_16th = (np.arange(1600) % 16 == 0)[:, None]
    return log_softmax(
        {
            "sorted": 4 * np.sort(logits, axis=0),
            "of one cluster": 3 * logits + 60 * every_16th * (np.arange(K) == 3),
            "without a cluster": logits - 1e4 * every_16th * (np.arange(K) == 3),
            "impossible": np.where(every_16th & (np.arange(K) == 3), -np.inf, logits),
            "peaked": logits * np.where(every_16th, 300, 3),
            "all peaked": 100 * logits,
        }[name],
        axis=1,
    )


@pytest.mark.parametrize(
    "name",
    [
        "sorted",
        "of one cluster",
        "without a cluster",
        "impossible",
        "peaked",
        "all peaked",
    ],
)
def test_the_rows_it_starts_with_need_not_be_typical(name):
    q = np.asarray(balance(unlike_every_16th_row(name)))
    assert column_error(q) <= 3e-5
    np.testing.assert_allclose(1600 * q.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("where", [np.arange(1600) % 16 != 0, np.arange(1600) < 7])
def test_the_rows_it_starts_with_need_not_take_part(where):
    q = np.asarray(balance(unlike_every_16th_row("of one cluster"), where=where))
    assert column_error(q) <= 3e-5 and not q[~where].any()


@pytest.mark.parametrize("seed", range(3))
def test_few_decided_rows_are_annealed_without_those_it_starts_with(seed):
    rng = np.random.default_rng(seed)
    log_probs = log_softmax(20 * rng.normal(size=(6400, 20)), axis=1)
    others = np.flatnonzero(np.arange(6400) % 16)
    where = np.isin(np.arange(6400), rng.choice(others, 400, replace=False))
    q = np.asarray(balance(log_probs, epsilon=0.01, where=where))
    assert column_error(q) <= 3e-5 and not q[~where].any()


def test_nan_outside_the_rows_it_starts_with_propagates():
    log_probs = unlike_every_16th_row("sorted")
    log_probs[5, 2] = np.nan
    assert np.isnan(balance(log_probs)).all()


@pytest.mark.parametrize("shape", [(424, 3), (4008, 20)])
def test_rows_that_do_not_divide_are_not_gathered(rows_over_8_devices, shape):
    log_probs = random_log_probs(0, shape, scale=3).astype(np.float32)
    sharded = rows_over_8_devices(log_probs)
    compiled = jax.jit(balance).lower(sharded).compile()
    assert "all-gather" not in compiled.as_text()
    expected = np.asarray(balance(log_probs))
    np.testing.assert_allclose(compiled(sharded), expected, atol=1e-3 / shape[0])


@pytest.mark.slow
@pytest.mark.parametrize("solver", [sinkhorn, balance])
def test_memory_is_that_of_the_input_and_the_result(solver):
    x = jax.ShapeDtypeStruct((40_000, 500), np.float32)
    used = jax.jit(solver).lower(x).compile().memory_analysis()
    assert used.temp_size_in_bytes <= 0.5 * used.output_size_in_bytes


def test_edges():
    transport.assert_edges(balance, (M, K))


def test_minus_infinity_gets_no_mass():
    log_probs = random_log_probs(0)
    log_probs[3, 1] = log_probs[:, 2] = -np.inf
    q = np.asarray(balance(log_probs))
    assert np.isfinite(q).all() and not q[np.isinf(log_probs)].any()
    np.testing.assert_allclose(9 * np.delete(q.sum(0), 2), 1, atol=2e-5)


def test_impossible_tolerance_returns_the_best_found():
    assert column_error(solve("peaked", tolerance=1e-30)) < 1e-5


def test_vmap():
    log_probs = np.stack([CASES[name][0] for name in ("mild", "peaked")])
    batched = np.asarray(jax.vmap(balance)(log_probs))
    for one, q in zip(log_probs, batched, strict=True):
        np.testing.assert_allclose(M * q, M * np.asarray(balance(one)), atol=1e-3)


def test_rows_sharded_over_devices_need_all_reduces_only(rows_over_8_devices):
    transport.assert_rows_on_devices_need_all_reduces_only(
        balance, rows_over_8_devices, atol=1e-3
    )


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((4, 3), {"epsilon": 0}),
        ((4, 3), {"tolerance": 0}),
        ((4, 3), {"tolerance": float("nan")}),
        ((4,), {}),
        ((4, 3), {"where": np.ones(3, bool)}),
    ],
)
def test_bad_arguments(shape, options):
    with pytest.raises(ValueError, match="must be"):
        balance(jnp.zeros(shape), **options)


@pytest.mark.parametrize("tolerance", [0, -1, float("nan"), float("inf"), 10**400])
def test_a_tolerance_beyond_its_range_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance must be in"):
        balance(np.zeros((4, 2)), tolerance=tolerance)
