"""Drawn sizes and partial assignment against scipy, POT and their limits."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from tests.kernels import transport
from upsilon_jax import assign, balance, explore, sinkhorn

M, K, EPSILON = 60, 5, 0.05
BIAS = np.linspace(-1, 1, K)
LOG_PROBS = transport.random_log_probs(0, (M, K), 2.0, BIAS)
TERMS = [(1.0, None), (0.1, None), (None, 0.5), (0.1, 0.9), (1.0, 0.2)]  # λ, ρ


def options(relaxation, mass):
    return {"relaxation": relaxation, "mass": 1.0 if mass is None else mass}


# Compiled once for all numbers.
BALANCE = jax.jit(
    lambda x, relaxation, mass=None, epsilon=EPSILON: balance(
        x, epsilon=epsilon, tolerance=1e-11, **options(relaxation, mass)
    )
)
SLOW_BALANCE = pytest.param(balance, marks=pytest.mark.slow)  # it compiles anew


def with_rest(log_probs, mass):
    """log P and the masses asked for, with the column of what is left out."""
    target = np.full(log_probs.shape[1], (mass or 1) / log_probs.shape[1])
    if mass is None:
        return log_probs, target
    return np.c_[log_probs, np.zeros(len(log_probs))], np.r_[target, 1 - mass]


def dual(log_probs, relaxation, mass):
    """The plan by scipy, from the dual problem as it is written down."""
    extended, target = with_rest(np.asarray(log_probs, np.float64), mass)
    exponent, drawn = extended / EPSILON, np.arange(len(target)) < K

    def value_and_slope(g):
        fall = EPSILON / relaxation * g if relaxation else np.zeros_like(g)
        slope = -target * np.where(drawn, np.exp(-fall), 1)
        value = -target * g
        if relaxation:
            value = np.where(drawn, -slope * relaxation / EPSILON, value)
        p = softmax(exponent + g, axis=1)
        value = logsumexp(exponent + g, axis=1).mean() + value.sum()
        return value, p.mean(axis=0) + slope

    start, goal = np.zeros(len(target)), {"gtol": 1e-11, "maxiter": 3000}
    g = minimize(value_and_slope, start, jac=True, method="BFGS", options=goal).x
    return softmax(exponent + g, axis=1)[:, :K] / len(log_probs)


def log_domain(log_probs, relaxation, mass, num_iters):
    """The definition of `sinkhorn`, in float64: from f = 0, g from f, then f from g."""
    extended, target = with_rest(np.asarray(log_probs, np.float64), mass)
    exponent, f = extended / EPSILON, np.zeros(len(log_probs))
    damping = np.ones(len(target))
    if relaxation:
        damping[:K] = relaxation / (relaxation + EPSILON)
    for _ in range(num_iters):
        g = damping * (np.log(target) - logsumexp(exponent + f[:, None], axis=0))
        f = -np.log(len(exponent)) - logsumexp(exponent + g, axis=1)
    return np.exp(exponent + f[:, None] + g)[:, :K]


def close(one, other, atol=1e-6):
    np.testing.assert_allclose(M * np.asarray(one), M * np.asarray(other), atol=atol)


@pytest.mark.parametrize(
    "terms", [t if t[0] else pytest.param(t, marks=pytest.mark.slow) for t in TERMS]
)
def test_balance_is_what_scipy_finds(terms, x64):
    close(BALANCE(LOG_PROBS, *terms), dual(LOG_PROBS, *terms))


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("num_iters", [1, 2, 32])
def test_sinkhorn_is_its_iteration(terms, num_iters):
    q = sinkhorn(LOG_PROBS.astype("f"), num_iters=num_iters, **options(*terms))
    close(q, log_domain(LOG_PROBS, *terms, num_iters), atol=1e-4)


@pytest.mark.parametrize("terms", [(0.1, None), (0.1, 0.9)])
def test_sinkhorn_converges_to_balance(terms, x64):
    q = sinkhorn(LOG_PROBS, num_iters=3000, **options(*terms))
    close(q, BALANCE(LOG_PROBS, *terms), atol=1e-8)


@pytest.fixture(scope="module")
def ot():
    with transport.imported_pot() as ot:
        yield ot


def test_pot_unbalanced(ot, x64):
    """POT with hard rows and drawn columns."""
    marginals = (np.full(n, 1 / n) for n in (M, K))
    expected = ot.unbalanced.sinkhorn_unbalanced(
        *marginals,
        -LOG_PROBS,
        EPSILON,
        (np.inf, 0.1),
        reg_type="entropy",
        numItermax=3000,
        stopThr=1e-15,
    )
    close(BALANCE(LOG_PROBS, 0.1), expected, atol=1e-9)


def test_pot_partial(ot, x64):
    """At a small ε, POT's exact partial transport; its entropic form has another H."""
    rho = 0.5
    expected = ot.partial.partial_wasserstein(
        np.full(M, 1 / M), np.full(K, rho / K), -LOG_PROBS, rho * (1 - 1e-12)
    )
    q = np.asarray(BALANCE(LOG_PROBS, np.inf, rho, 1e-3))
    # ε · entropy bounds the excess cost: 1e-3 · log(60 · 6) = 6e-3.
    assert -1e-9 <= -(LOG_PROBS * (q - expected)).sum() < 6e-3
    np.testing.assert_array_equal(M * q.sum(1) > 0.5, M * expected.sum(1) > 0.5)


def test_limits(x64):
    hard = balance(LOG_PROBS, tolerance=1e-11)
    free = softmax(LOG_PROBS / EPSILON, axis=1) / M
    close(BALANCE(LOG_PROBS, 1e9), hard)
    close(BALANCE(LOG_PROBS, np.inf), hard)
    close(BALANCE(LOG_PROBS, 1e-9), free)
    close(sinkhorn(LOG_PROBS, relaxation=1e-9), free)
    close(sinkhorn(LOG_PROBS, relaxation=1e9), sinkhorn(LOG_PROBS), atol=1e-5)
    close(BALANCE(LOG_PROBS, np.inf, 1.0), hard)  # ρ = 1, but traced
    close(BALANCE(LOG_PROBS, np.inf, 1 - 1e-9), hard, atol=1e-5)


def test_masses_come_together_as_relaxation_grows(x64):
    masses = [np.asarray(BALANCE(LOG_PROBS, 10.0**n)).sum(0) for n in range(-3, 4)]
    largest, smallest = np.max(masses, axis=1), np.min(masses, axis=1)
    far = [(m * np.log(K * m)).sum() for m in masses]
    assert (np.diff(largest) < 0).all() and (np.diff(smallest) > 0).all()
    assert (np.diff(far) < 0).all() and far[0] > 0.03 and far[-1] < 1e-6


def test_mass_is_assigned_to_the_most_decided_rows(x64):
    shares = [M * np.asarray(BALANCE(LOG_PROBS, 0.1, r)).sum(1) for r in (0.2, 0.6)]
    np.testing.assert_allclose(np.mean(shares, axis=1), [0.2, 0.6], rtol=1e-9)
    assert (shares[0] < shares[1]).all()
    decided = LOG_PROBS.max(axis=1)
    assert np.corrcoef(shares[0], decided)[0, 1] > 0.4


def test_defaults_are_the_paper_s_program():
    x = LOG_PROBS.astype("f")
    program = lambda f, **more: jax.jit(lambda x: f(x, **more)).lower(x).as_text()
    for solver in (sinkhorn, balance):
        text = program(solver)
        assert program(solver, relaxation=None, mass=np.float32(1)) == text
        assert f"{M}x{K + 1}x" not in text
    assert f"{M}x{K + 1}x" in program(sinkhorn, mass=0.5)


@pytest.mark.parametrize("solver", [sinkhorn, SLOW_BALANCE])
def test_rows_outside_where_are_inert(solver):
    where = np.arange(M) % 3 != 1
    solve = partial(solver, relaxation=0.1, mass=0.7)
    q = np.asarray(
        solve(np.where(where[:, None], LOG_PROBS, np.nan).astype("f"), where=where)
    )
    expected = solve(LOG_PROBS[where].astype("f"))
    assert not q[~where].any()
    close(q[where], expected, atol=1e-3)


@pytest.mark.parametrize("solver", [sinkhorn, SLOW_BALANCE])
def test_rows_sharded_over_devices(rows_over_8_devices, solver):
    transport.assert_rows_on_devices_need_all_reduces_only(
        partial(solver, relaxation=0.1, mass=0.7), rows_over_8_devices, atol=1e-3
    )


@pytest.mark.parametrize("solver", [sinkhorn, SLOW_BALANCE])
def test_edges(solver):
    solve = partial(solver, relaxation=0.1, mass=0.5)
    np.testing.assert_allclose(solve(np.zeros((8, 1), "f")), 1 / 16, rtol=1e-2)
    assert solve(np.zeros((0, 3), "f")).shape == (0, 3)
    x = LOG_PROBS.astype("f")
    assert not np.asarray(solve(np.nan * x, where=np.zeros(M, bool))).any()
    x[:, 2] = x[7] = -np.inf
    q = np.asarray(solve(x))
    assert np.isfinite(q).all() and not q[np.isinf(x)].any()
    x[3, 1] = np.nan
    assert np.isnan(solve(x)).all()


@pytest.mark.parametrize("solver", [sinkhorn, SLOW_BALANCE])
def test_finite_in_finite_out(solver):
    run = jax.jit(lambda x, e, r, m: solver(x, epsilon=e, relaxation=r, mass=m))
    x = np.random.default_rng(0).standard_normal((M, K))
    for scale in (1e3, 1e20, 3.4e38 / np.abs(x).max()):
        for relaxation in (0.0, 1e-30, 1.0, 1e30):
            for mass in (0.0, 1e-3, 0.5, 1.0):
                q = np.asarray(run((scale * x).astype("f"), EPSILON, relaxation, mass))
                assert (q >= 0).all() and (M * q.sum(1) < 1 + 1e-5).all()


def test_a_row_that_is_far_off_leaves_the_others_their_digits():
    """So do rows outside `where`, whatever they hold."""
    x = LOG_PROBS.astype("f")
    solve = partial(sinkhorn, relaxation=1.0, mass=0.5)
    x[0] = -1e20
    close(solve(x), log_domain(x, 1.0, 0.5, 32), atol=1e-4)
    one, other = x.copy(), x.copy()
    one[0], other[0] = np.inf, np.nan
    where = np.arange(M) > 0
    np.testing.assert_array_equal(solve(one, where=where), solve(other, where=where))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 12.0, 100.0])
def test_float32_reaches_the_tolerance(scale):
    run = jax.jit(lambda x, *t: assign(x, solver="newton", **options(*t)).error)
    x = transport.random_log_probs(1, (M, K), scale, BIAS).astype("f")
    for relaxation in (1e-3, 0.1, 10.0):
        for mass in (0.01, 0.5, 0.99):
            assert run(x, relaxation, mass) <= 1e-4


def test_vmap_over_terms():
    x, relaxation, mass = LOG_PROBS.astype("f"), np.array([0.1, 1]), np.array([0.5, 1])
    solve = lambda r, m: sinkhorn(x, relaxation=r, mass=m)
    together = jax.vmap(solve)(relaxation, mass)
    for i in range(2):
        close(together[i], solve(relaxation[i], mass[i]), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mass", [None, 0.6])
def test_gradients(mass, x64):
    """Of `sinkhorn` with respect to all it takes, and of `balance` in its limit."""
    cost = np.random.default_rng(1).standard_normal((M, K))
    given = (LOG_PROBS, EPSILON, 0.1) + (() if mass is None else (mass,))

    def loss(solver, x, epsilon, *terms, **more):
        terms = options(*terms, *[None] * (mass is None))
        return M * (cost * solver(x, epsilon=epsilon, **terms, **more)).sum()

    few = jax.jit(partial(loss, sinkhorn, num_iters=3))
    limits = (
        partial(loss, balance, tolerance=1e-12),
        partial(loss, sinkhorn, num_iters=1500),
    )
    everything = tuple(range(len(given)))
    grad = jax.jit(jax.grad(few, everything))(*given)
    for i, value in enumerate(given):
        way = np.random.default_rng(2).standard_normal(np.shape(value))
        at = lambda s, i=i, way=way: [
            v + 1e-6 * s * way if j == i else v for j, v in enumerate(given)
        ]
        slope = (few(*at(1)) - few(*at(-1))) / 2e-6
        np.testing.assert_allclose((grad[i] * way).sum(), slope, rtol=1e-5)
    found, expected = (jax.jit(jax.grad(f, everything))(*given) for f in limits)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_assign_tells_potentials_and_error(x64):
    plan, g, error = assign(LOG_PROBS, solver="newton", relaxation=0.1, mass=0.6)
    exponent = np.c_[LOG_PROBS / EPSILON + np.asarray(g), np.zeros(M)]
    close(plan, softmax(exponent, axis=1)[:, :K] / M)
    # In these potentials d is right up to a factor: it is the same for all clusters.
    drawn = np.exp(-EPSILON * np.asarray(g) / 0.1)
    d = 0.6 * drawn / drawn.sum()
    assert np.abs(np.asarray(plan).sum(0) / d - 1).max() <= 1e-5 and error <= 1e-5


@pytest.mark.parametrize(
    "terms",
    [
        {"relaxation": 0.0},
        {"relaxation": -1.0},
        {"relaxation": float("nan")},
        {"relaxation": np.ones(2)},
        {"mass": 0.0},
        {"mass": 1.1},
        {"mass": float("nan")},
        {"mass": np.ones(2)},
    ],
)
def test_bad_arguments(terms):
    for solver in (sinkhorn, balance, assign, partial(explore, num_classes=1)):
        with pytest.raises(ValueError, match="must be"):
            solver(jnp.zeros((4, 3)), **terms)
