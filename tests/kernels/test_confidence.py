"""The scores of a row against float64 softmax, closed forms and saturated logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax

from upsilon_jax.kernels import confidence as kernels

COMPILED = {
    name: jax.jit(score, static_argnums=1) for name, score in kernels.SCORES.items()
}
SCORES = {
    name: lambda *args, f=f: jax.tree.map(np.asarray, f(*args))
    for name, f in COMPILED.items()
}
id_confidence, negative_entropy, margin = SCORES.values()


def random_logits(seed, shape, scale=3.0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype("f")


@pytest.mark.parametrize("scale", [0.1, 3, 30])
def test_values_equal_the_definitions(scale):
    logits = random_logits(0, (200, 7), scale)
    f = softmax(logits.astype(np.float64), axis=1)
    two = np.sort(f, axis=1)[:, -2:]
    h = (f * log_softmax(logits.astype(np.float64), axis=1)).sum(1)
    expected = {
        "confidence": f[:, :4].max(1),
        "entropy": h,
        "margin": two[:, 1] - two[:, 0],
    }
    for name, value in expected.items():
        score = SCORES[name](logits, 4)
        np.testing.assert_allclose(score.value, value, rtol=2e-5, atol=1e-7)
        label = f[:, :4].argmax(1) if name == "confidence" else f.argmax(1)
        np.testing.assert_array_equal(score.label, label)


def test_rank_of_confidence_is_the_log_odds():
    logits = random_logits(1, (200, 7), 30)
    score = id_confidence(logits, 4)
    own = np.arange(7) == score.label[:, None]
    z = logits.astype(np.float64)
    log_odds = z[own] - logsumexp(np.where(own, -np.inf, z), axis=1)
    np.testing.assert_allclose(score.rank, log_odds, rtol=1e-6, atol=1e-5)


def test_wide_rows_are_summed_up_as_narrow_ones():
    """Outputs that nobody chooses make the rows wide, and change nothing."""
    tiny = np.finfo(np.float32).tiny
    narrow = np.concatenate(
        [
            random_logits(3, (200, 7)),
            np.repeat(random_logits(4, (9, 1)), 7, axis=1),  # ties
            [[0, tiny, 2 * tiny, 0, 0, 0, 0], [tiny, 0, 0, 0, 0, 0, 0]],
            np.full((1, 7), np.nan),
            [[300, 0, 0, 0, 0, 0, 100], [0, 0, 0, 0, 300, 0, 0]],
        ]
    ).astype(np.float32)
    unwanted = np.full((len(narrow), 33), narrow[:200].min() - 90, np.float32)
    wide = np.concatenate([narrow, unwanted], axis=1)
    found, expected = id_confidence(wide, 4), id_confidence(narrow, 4)
    np.testing.assert_array_equal(found.label, expected.label)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-5, atol=1e-6)
    finite = expected.label >= 0
    assert not finite.all()
    np.testing.assert_allclose(
        found.rank[finite], expected.rank[finite], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", SCORES)
def test_rank_increases_with_the_value(name, x64):
    score = SCORES[name](jnp.asarray(random_logits(2, (500, 6), 2).astype("d")), 6)
    order = np.argsort(score.value)
    assert (np.diff(score.rank[order]) >= 0).all()


@pytest.mark.parametrize("name", SCORES)
def test_rank_does_not_saturate(name):
    # The value is 1 (or 0) for all rows with a lead beyond 104 in float32.
    lead = np.array([0.5, 5, 20, 50, 100, 1000, 1e4, 1e6], np.float32)
    logits = np.stack([lead, 0 * lead, 0 * lead - 1], axis=1)
    score = SCORES[name](logits, 2)
    assert (np.diff(score.rank) > 0).all() and np.isfinite(score.rank).all()
    assert (np.diff(score.value) >= 0).all() and np.isfinite(score.value).all()


def test_exact_values():
    one_hot, uniform = jnp.array([[200.0, 0, 0, 0]]), jnp.zeros((1, 4))
    for score, top, flat in (
        (id_confidence, 1, 0.25),
        (negative_entropy, 0, -np.log(4)),
        (margin, 1, 0),
    ):
        np.testing.assert_allclose(score(one_hot, 4).value, top, atol=1e-30)
        np.testing.assert_allclose(score(uniform, 4).value, flat, rtol=1e-6)
    assert id_confidence(uniform, 4).value[0] == 0.25  # to be told from a threshold


def test_entropy_and_margin_follow_confidence_for_two_outputs():
    logits = random_logits(3, (300, 2), 4)
    confidence, entropy, lead = (SCORES[name](logits, 2) for name in SCORES)
    order = np.argsort(confidence.rank)
    for other in (entropy, lead):
        np.testing.assert_array_equal(order, np.argsort(other.rank))
    np.testing.assert_allclose(lead.value, 2 * confidence.value - 1, atol=1e-6)


def test_sharper_rows_have_less_entropy():
    logits = random_logits(4, (50, 5), 1)
    ranks = [negative_entropy(t * logits, 5).rank for t in (0.5, 1.0, 2.0, 8.0, 40.0)]
    assert (np.diff(np.stack(ranks), axis=0) > 0).all()


def test_one_output_is_certain():
    for score in (id_confidence, negative_entropy):
        label, value, rank = score(jnp.array([[3.0], [-1e30]]), 1)
        np.testing.assert_array_equal(label, 0)
        np.testing.assert_array_equal(value, 1 if score is id_confidence else 0)
        np.testing.assert_array_equal(rank, np.inf)
    with pytest.raises(ValueError, match="at least 2 outputs"):
        margin(jnp.zeros((4, 1)), 1)


def test_ties_take_the_lowest_class():
    logits = jnp.array([[1.0, 3, 3, 3], [2, 2, 2, 2]])
    for score in SCORES.values():
        np.testing.assert_array_equal(score(logits, 4).label, [1, 0])


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_with_non_finite_logits(name, value):
    logits = random_logits(5, (40, 9))
    rows = np.arange(0, 36, 4)
    logits[rows, np.arange(9)] = value
    score = SCORES[name](logits, 5)
    bad = np.isin(np.arange(40), rows)
    np.testing.assert_array_equal(score.label == -1, bad)
    np.testing.assert_array_equal(np.isnan(score.value), bad)


@pytest.mark.parametrize("name", SCORES)
def test_ends_of_the_float_range(name):
    top = np.finfo(np.float32).max
    logits = np.array([[top, -top, -top], [-top, top, 0], [top, top, 0]], np.float32)
    label, value, rank = SCORES[name](logits, 3)
    np.testing.assert_array_equal(label, [0, 1, 0])
    assert np.isfinite(value).all() and not np.isnan(rank).any()


@pytest.mark.parametrize("name", SCORES)
def test_equal_rows_have_equal_scores(name):
    # Ties are broken by row only if they are exact wherever the row is.
    row = random_logits(6, (37,))
    score = SCORES[name](np.tile(row, (1001, 1)), 20)
    assert np.ptp(score.rank) == 0 and np.ptp(score.value) == 0
