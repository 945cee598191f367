"""The kernels in other people's programs: traced numbers, any array, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import upsilon_jax
from tests.kernels import transport
from upsilon_jax import assign, balance, explore, imbalance, rebalance, sinkhorn

M, K = 40, 4
LOG_PROBS = transport.random_log_probs(0, (M, K), 0.3)
WHERE = np.arange(M) != 4
COST = np.random.default_rng(1).standard_normal((M, K))


def converged(solver, x, epsilon, **options):
    options = {"num_iters": 2000} if solver is sinkhorn else {"tolerance": 1e-13}
    return (COST * solver(x, epsilon=epsilon, where=WHERE, **options)).sum()


@pytest.fixture(scope="module")
def gradients():
    """Of one loss, through `balance` and through many iterations of `sinkhorn`."""
    with jax.enable_x64(True):
        loss = jax.jit(lambda x, epsilon: converged(balance, x, epsilon))
        other = lambda x, epsilon: converged(sinkhorn, x, epsilon)
        grad = jax.jit(jax.grad(loss, (0, 1)))
        expected = jax.jit(jax.grad(other, (0, 1)))(LOG_PROBS, 0.05)
        return loss, grad(LOG_PROBS, 0.05), expected


def test_gradient_of_balance_is_that_of_many_iterations(gradients):
    _, found, expected = gradients
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    assert not np.asarray(found[0])[~WHERE].any()


def test_gradient_of_balance_is_that_of_finite_differences(gradients, x64):
    loss, (grad, stretch), _ = gradients
    step = 1e-5
    for direction in np.random.default_rng(2).standard_normal((3, M, K)):
        ends = (loss(LOG_PROBS + s * direction, 0.05) for s in (step, -step))
        slope = np.subtract(*ends) / (2 * step)
        np.testing.assert_allclose((grad * direction).sum(), slope, rtol=1e-6)
    slope = np.subtract(*(loss(LOG_PROBS, 0.05 + s * 0.01) for s in (step, -step)))
    np.testing.assert_allclose(stretch, slope / (2 * 0.01 * step), rtol=1e-6)


@pytest.mark.slow
def test_second_derivatives_of_balance(gradients, x64):
    loss, (grad, _), _ = gradients
    along = np.random.default_rng(3).standard_normal((M, K))
    slope = jax.grad(lambda x: loss(x, 0.05))
    found = jax.jvp(slope, (LOG_PROBS,), (along,))[1]
    expected = (slope(LOG_PROBS + 1e-5 * along) - grad) / 1e-5
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4, 1e30])
def test_gradients_are_finite(scale):
    x = jnp.asarray(scale * np.random.default_rng(4).standard_normal((M, K)), "f")
    x = x.at[:, 2].set(-jnp.inf)
    for where in (WHERE, np.zeros(M, bool)):
        loss = lambda x, w: (balance(x, where=w) ** 2).sum()
        assert np.isfinite(jax.jit(jax.grad(loss))(x, where)).all()


TRACED = {
    "sinkhorn": lambda x, number: sinkhorn(x, epsilon=number),
    "rebalance": lambda x, number: rebalance(x, 2, threshold=number),
    "balance": lambda x, number: balance(x, epsilon=number, tolerance=number / 1e3),
    "explore": lambda x, number: explore(x, 2, threshold=number, epsilon=number),
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("balance", "explore")]


@pytest.mark.parametrize("name", ["sinkhorn", "rebalance", *SLOW])
def test_numbers_may_be_traced(name):
    x, run = LOG_PROBS.astype(np.float32), jax.jit(TRACED[name])
    for one, other in zip(run(x, 0.3), TRACED[name](x, 0.3), strict=True):
        np.testing.assert_allclose(M * one, M * other, rtol=1e-5, atol=1e-5)
    for number in (0.0, 1e-45, 3e38):  # out of the range that is asked of known ones
        assert all(np.isfinite(x).all() for x in run(x, number))


@pytest.mark.parametrize("solver", [sinkhorn, balance])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-45, 1e38, np.inf])
def test_epsilon_that_leaves_the_floats_is_refused(solver, epsilon):
    with pytest.raises(ValueError, match=r"epsilon must be in \[1.18e-38, 8.51e\+37\]"):
        solver(LOG_PROBS.astype("f"), epsilon=epsilon)
    with pytest.raises(ValueError, match="epsilon must be one number"):
        solver(LOG_PROBS, epsilon=np.full(3, 0.05))


def test_iterations_are_counted_in_32_bits():
    with pytest.raises(ValueError, match=r"num_iters must be in \[1, 2\*\*31\)"):
        sinkhorn(LOG_PROBS, num_iters=2**31)


def test_complex_entries_are_refused():
    with pytest.raises(ValueError, match="must be real"):
        sinkhorn(LOG_PROBS + 1j)


def test_lists_are_arrays():
    logits = [[9.0, 0, 0, 0], [0, 7, 0, 0], [0, 0, 4, 1], [0, 0, 4, 3]]
    where = [True, True, True, False]
    assert rebalance(logits, 2, where=where).label.tolist() == [0, 1, -1, -1]
    assert explore(logits, 2, where=where).label.tolist()[3] == -1
    assert imbalance([0, 0, 1], 2)[1] == 2
    plan = sinkhorn([[-1, -2], [-2, -1]])
    np.testing.assert_array_equal(plan, sinkhorn(np.array([[-1.0, -2], [-2, -1]], "f")))


@pytest.mark.slow
def test_vmap_over_leading_dimensions():
    x = np.stack([LOG_PROBS, 3 * LOG_PROBS]).astype("f")
    where = np.stack([WHERE, ~WHERE | (np.arange(M) < 20)])
    select = lambda z, w: rebalance(z, 2, threshold=0.3, where=w)
    group = lambda z, w: explore(z, 2, threshold=0.9, where=w)
    solve = lambda z, w: assign(z, solver="newton", where=w).potentials
    for function in (select, group, solve):
        batched = jax.vmap(function)(x, where)
        for i in range(2):
            alone = function(x[i], where[i])
            pairs = zip(*map(jax.tree.leaves, (batched, alone)), strict=True)
            for one, other in pairs:
                np.testing.assert_allclose(one[i], other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("solver", ["sinkhorn", "newton"])
def test_assign_tells_potentials_and_error(solver):
    x = LOG_PROBS.astype("f")
    plan, g, error = assign(x, solver=solver, where=WHERE)
    by_itself = {"sinkhorn": sinkhorn, "newton": balance}[solver](x, where=WHERE)
    np.testing.assert_array_equal(plan, by_itself)
    p = jax.nn.softmax(x / 0.05 + g[None, :], axis=1) * WHERE[:, None] / WHERE.sum()
    np.testing.assert_allclose(M * plan, M * p, atol=1e-4)
    np.testing.assert_allclose(g.mean(), 0, atol=1e-5)
    expected = np.abs(K * np.asarray(plan, np.float64).sum(0) - 1).max()
    np.testing.assert_allclose(error, expected, atol=1e-6)
    assert (error <= 2e-5) == (solver == "newton")


def test_assign_knows_its_solvers():
    with pytest.raises(ValueError, match="solver must be one of"):
        assign(LOG_PROBS, solver="simplex")


@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize("solver", [sinkhorn, balance])
def test_finite_in_finite_out(solver, seed):
    """Potentials as large as these leave no digits for what is added to them."""
    x = np.random.default_rng(seed).standard_normal((257, 2))
    for scale in (1e10, 1e18, 1e20, 1e30, 1e37, 3.4e38 / np.abs(x).max()):
        q = np.asarray(solver((scale * x).astype("f")))
        np.testing.assert_allclose(257 * q.sum(1), 1, atol=1e-5)
        if solver is balance:
            np.testing.assert_allclose(2 * q.sum(0), 1, atol=0.15)


def test_dir_names_what_is_loaded_late():
    assert set(upsilon_jax.__all__) <= set(dir(upsilon_jax))
    assert "__version__" in dir(upsilon_jax)
