"""The compiled passes over rows against numpy in float64, and against those in jnp."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from upsilon_jax import native
from upsilon_jax.kernels import (
    balance,
    confidence,
    explore,
    rebalance,
    rows,
    samples,
    sinkhorn,
)
from upsilon_jax.native import libraries

# Rows and columns: whole vectors and parts of one, more than a block of rows, fewer
# columns than a vector has lanes, one, and no row at all.
SHAPES = [(64, 32), (37, 5), (2100, 20), (1029, 1), (3, 100), (16, 17), (0, 4)]
WEIGHT = 0.25

pytestmark = pytest.mark.usefixtures("native_code")


def draw(shape, scale=10.0):
    """Logits with some -inf, potentials, and rows that take part."""
    rng = np.random.default_rng(shape)
    logits = (scale * rng.standard_normal(shape)).astype(np.float32)
    logits[rng.random(shape) < 0.05] = -np.inf
    g = (scale * rng.standard_normal(shape[1])).astype(np.float32)
    return logits, g, rng.random(shape[0]) < 0.8


def expected_shares(logits, g, where, sharpness=2.0):
    exponent = sharpness * logits.astype(np.float64) + g
    exponent[~np.isfinite(exponent).any(axis=1)] = np.nan
    p = np.nan_to_num(softmax(exponent, axis=1)) if len(logits) else exponent
    return p * where[:, None]


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_and_masses(shape):
    logits, g, where = draw(shape)
    expected = expected_shares(logits, g, where)
    problem = samples.make_samples(jnp.asarray(logits), jnp.asarray(where), 0.5)
    plan = np.asarray(samples.softmax(problem, jnp.asarray(g), weight=WEIGHT))
    # Exponents of up to 100 are rounded to 1e-5.
    np.testing.assert_allclose(plan, WEIGHT * expected, rtol=3e-5, atol=1e-30)
    assert not plan[np.isinf(logits)].any()
    q = samples.masses(problem, samples.exponents(problem), jnp.asarray(g))
    count = max(where.sum(), 1)
    np.testing.assert_allclose(q, expected.sum(0) / count, rtol=3e-5, atol=1e-30)


@pytest.mark.parametrize("apart", [39, 41, 90, 1000])  # bits
def test_potentials_that_are_apart(apart):
    """Rows whose best column has the lowest potential; others are near it."""
    rng = np.random.default_rng(apart)
    bits = -rng.uniform(0, 30, (500, 6))
    bits[:, 0] = 0
    g = np.append(np.zeros(3), np.full(3, apart))
    logits = (np.log(2) * (bits - g)).astype(np.float32)
    g = (np.log(2) * g).astype(np.float32)
    problem = samples.make_samples(jnp.asarray(logits), None, 1.0)
    expected = softmax(logits.astype(np.float64) + g, axis=1)
    p = np.asarray(samples.softmax(problem, jnp.asarray(g)))
    # Exponents of `apart` bits have that many times the rounding of 1, twice; what is
    # lost beside the sum may be lost.
    limit = max(apart, 40) * 2.0**-22
    np.testing.assert_allclose(p, expected, rtol=limit, atol=2.0**-25)
    q = samples.masses(problem, samples.exponents(problem), jnp.asarray(g))
    np.testing.assert_allclose(q, expected.mean(axis=0), rtol=limit, atol=2.0**-25)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("extra", [0, 3])
def test_top_label(shape, extra):
    logits, *_ = draw(shape)
    logits[np.isinf(logits)] = -40
    num_labels = max(shape[1] - extra, 1)
    found = confidence._top_label(jnp.asarray(logits), jnp.int32(num_labels))
    label, own, other, rest = map(np.asarray, found)
    np.testing.assert_array_equal(label, logits[:, :num_labels].argmax(1))
    mine = np.arange(shape[1]) == label[:, None]
    np.testing.assert_array_equal(own, logits[mine])
    others = np.where(mine, -np.inf, logits)
    np.testing.assert_array_equal(other, others.max(1, initial=-np.inf))
    if shape[1] > 1:
        expected = logsumexp(others.astype(np.float64), axis=1) if len(label) else []
        np.testing.assert_allclose(other + np.log(rest), expected, atol=1e-5)
    else:
        assert not rest.any()


def test_top_label_of_broken_and_tied_rows():
    logits = np.zeros((40, 20), np.float32)
    logits[3, 4], logits[17, 19], logits[39, 0] = np.nan, np.inf, -np.inf
    label, _, _, rest = confidence._top_label(jnp.asarray(logits), jnp.int32(20))
    broken = np.isin(np.arange(40), (3, 17, 39))
    np.testing.assert_array_equal(label, np.where(broken, -1, 0))
    np.testing.assert_array_equal(np.asarray(rest)[~broken], 19)


def test_powers_of_two_are_exact_to_two_units_of_the_last_place():
    x = np.linspace(-126, 0, 100_000, dtype=np.float32)
    logits = np.stack([np.zeros_like(x), x * np.float32(np.log(2))], axis=1)
    *_, rest = confidence._top_label(jnp.asarray(np.tile(logits, (1, 2))), jnp.int32(4))
    exact = 1 + 2 * np.exp(logits[:, 1].astype(np.float64))
    np.testing.assert_allclose(rest, exact, rtol=4e-7)
    # The product with 1 / log 2 rounds an exponent of 126 by 8e-6.
    problem = samples.make_samples(jnp.asarray(logits), None, 1.0)
    p = np.asarray(samples.softmax(problem, jnp.zeros(2)))
    exact = softmax(logits.astype(np.float64), axis=1)
    np.testing.assert_allclose(p, exact, rtol=1e-5, atol=1e-37)
    near = x > -1
    np.testing.assert_allclose(p[near], exact[near], rtol=4e-7)


def test_sums_over_many_rows_keep_their_digits():
    problem = samples.make_samples(jnp.zeros((1_000_001, 3)), None, 0.05)
    g = jnp.log(jnp.array([1.0, 2.0, 4.0]))
    q = samples.masses(problem, samples.exponents(problem), g)
    np.testing.assert_allclose(q, np.array([1, 2, 4]) / 7, rtol=1e-6)


def test_a_nan_stays_in_its_row_and_shows_in_the_sums():
    logits, g, _ = draw((50, 6))
    logits[20, 2] = np.nan
    problem = samples.make_samples(jnp.asarray(logits), None, 0.5)
    p = np.asarray(samples.softmax(problem, jnp.asarray(g)))
    np.testing.assert_array_equal(np.isnan(p).all(1), np.arange(50) == 20)
    assert np.isfinite(np.delete(p, 20, axis=0)).all()
    q = samples.masses(problem, samples.exponents(problem), jnp.asarray(g))
    assert np.isnan(q).all()


def test_the_same_bits_every_time():
    logits, g, where = draw((5000, 20))
    problem = samples.make_samples(jnp.asarray(logits), jnp.asarray(where), 0.5)
    run = jax.jit(lambda g: samples.masses(problem, samples.exponents(problem), g))
    first = np.asarray(run(g))
    for _ in range(20):
        np.testing.assert_array_equal(run(g), first)


CALLS = {
    "sinkhorn": lambda x: sinkhorn(x),
    "balance": lambda x: balance(x),
    "rebalance": lambda x: rebalance(x, 4, threshold=0.5),
    "explore": lambda x: explore(x, 2, threshold=0.9),
}


def custom_calls(text):
    return text.count("upsilon_jax.rows")


@pytest.mark.parametrize("name", CALLS)
def test_programs_for_other_platforms_are_plain(name):
    traced = jax.jit(CALLS[name]).trace(jnp.zeros((40, 6)))
    assert custom_calls(traced.lower(lowering_platforms=("cpu",)).as_text())
    for platform in ("cuda", "tpu"):
        lowered = traced.lower(lowering_platforms=(platform,))
        assert not custom_calls(lowered.as_text())


@pytest.mark.parametrize("name", CALLS)
def test_without_a_compiler_jnp_takes_over(name, monkeypatch):
    log_probs = jax.nn.log_softmax(2 * jax.random.normal(jax.random.key(0), (900, 6)))
    expected = CALLS[name](log_probs)
    monkeypatch.setattr(rows, "available", lambda name: False)
    jax.clear_caches()  # of what was traced while there was one
    found = CALLS[name](log_probs)
    assert not custom_calls(jax.jit(CALLS[name]).lower(log_probs).as_text())
    jax.clear_caches()
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 / 900)


def test_every_device_works_on_its_own_rows(rows_over_8_devices):
    logits, g, where = draw((8 * 37, 20))
    args = rows_over_8_devices((logits, where))

    def run(logits, where):
        problem = samples.make_samples(logits, where, 0.5)
        potentials = jnp.asarray(g)
        q = samples.masses(problem, samples.exponents(problem), potentials)
        top_label = confidence._top_label(logits, jnp.int32(20))
        return samples.softmax(problem, potentials), top_label, q

    compiled = jax.jit(run).lower(*args).compile()
    text = compiled.as_text()
    assert "f32[37,20]" in text and "f32[296,20]" not in text
    assert "all-gather" not in text and "all-reduce" in text
    found, expected = compiled(*args), jax.jit(run)(logits, where)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert found[0].sharding.spec[0] == "data"


def test_vmap():
    logits = np.stack([draw((37, 5))[0], draw((37, 5), 3.0)[0]])
    top_label = lambda x: confidence._top_label(x, jnp.int32(4))
    together = jax.vmap(top_label)(jnp.asarray(logits))
    for i, one in enumerate(logits):
        for got, want in zip(together, top_label(jnp.asarray(one)), strict=True):
            np.testing.assert_array_equal(got[i], want)


@pytest.mark.parametrize("name", ["rebalance", "explore"])
def test_selections_may_stand_inside_a_loss(name):
    """They have no derivative: the loss is differentiated as if they were given."""
    logits = 3 * jax.random.normal(jax.random.key(0), (200, 6))
    weight = CALLS[name](logits).weight
    assert weight.any()
    loss = lambda x, weight: (weight * jax.nn.logsumexp(x, axis=1)).sum()
    inside = jax.grad(lambda x: loss(x, CALLS[name](x).weight))(logits)
    np.testing.assert_allclose(inside, jax.grad(loss)(logits, weight), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-mno-avx512f", "-mno-avx"])
def test_shorter_vectors(monkeypatch, option):
    """As on older processors."""
    monkeypatch.setattr(libraries, "OPTIONS", (*libraries.OPTIONS, option))
    monkeypatch.setattr(native, "target", lambda function: f"{option}{function}")
    monkeypatch.setattr(rows, "target", native.target)
    assert native._register("rows")
    for shape in SHAPES:
        test_softmax_and_masses(shape)
        test_top_label(shape, 3)
