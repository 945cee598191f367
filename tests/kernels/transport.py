"""What `sinkhorn` and `balance`, two solvers of one problem, are held against."""

import contextlib
import warnings

import jax
import numpy as np
import pytest
from scipy.special import log_softmax


def random_log_probs(seed, shape, scale=1.0, bias=0.0):
    """[M, K] in float64."""
    logits = scale * np.random.default_rng(seed).standard_normal(shape)
    return log_softmax(logits + bias, axis=1)


@contextlib.contextmanager
def imported_pot():
    """POT, whose warnings are not ours."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for backend in ("TENSORFLOW", "PYTORCH", "JAX"):  # importing them takes seconds
            patch.setenv(f"POT_BACKEND_DISABLE_{backend}", "1")
        warnings.simplefilter("ignore")
        import ot

        yield ot


def pot(log_probs, epsilon, stop):
    """The converged [M, K] plan of POT, in float64."""
    with imported_pot() as ot:
        return ot.sinkhorn(
            *(np.full(n, 1 / n) for n in log_probs.shape),
            -log_probs.astype(np.float64),
            epsilon,
            method="sinkhorn_log",
            numItermax=20_000,
            stopThr=stop,
        )


def assert_rows_on_devices_need_all_reduces_only(solver, put_rows, atol):
    """The plan of rows over devices stays there, and is that of one device."""
    log_probs = random_log_probs(0, (800, 20), 3).astype(np.float32)
    where = np.random.default_rng(1).random(800) < 0.7
    args = put_rows((log_probs, where))
    solve = jax.jit(lambda x, w: solver(x, where=w))
    compiled = solve.lower(*args).compile()
    assert "all-reduce" in compiled.as_text() and "all-gather" not in compiled.as_text()
    q = compiled(*args)
    assert q.sharding.is_equivalent_to(args[0].sharding, 2)
    expected = np.asarray(solver(log_probs, where=where))
    np.testing.assert_allclose(800 * np.asarray(q), 800 * expected, atol=atol)


def assert_edges(solver, shape):
    """One cluster, no rows, no rows that take part, and a NaN in one that does."""
    np.testing.assert_array_equal(solver(np.zeros((8, 1), np.float32)), 0.125)
    assert solver(np.zeros((0, 3), np.float32)).shape == (0, 3)
    for value in (0.0, np.nan):
        q = solver(np.full(shape, value, np.float32), where=np.zeros(shape[0], bool))
        np.testing.assert_array_equal(q, np.zeros(shape))
    log_probs = random_log_probs(0, shape).astype(np.float32)
    log_probs[3, 1] = np.nan
    assert np.isnan(solver(log_probs)).all()
