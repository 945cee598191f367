import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from upsilon_jax.kernels import targets


def distributions(m=20, c=5, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(c), m).astype(np.float32)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_sharpen_against_its_formula():
    p = distributions()
    want = p.astype(np.float64) ** 2 / (p.astype(np.float64) ** 2).sum(1, keepdims=True)
    # The logarithm of a probability near 1e-3 keeps six digits in float32.
    np.testing.assert_allclose(targets.sharpen(p, 0.5), want, rtol=1e-5, atol=1e-7)


def test_sharpen_at_one_is_the_identity_and_near_zero_the_argmax():
    p = distributions()
    np.testing.assert_allclose(targets.sharpen(p, 1.0), p, rtol=1e-5)
    one_hot = np.eye(5, dtype=np.float32)[p.argmax(1)]
    # Ahead by 0.1, the largest leaves at most 0.9^10,000 of any other.
    ahead = 0.9 * p + 0.1 * one_hot
    np.testing.assert_allclose(targets.sharpen(ahead, 1e-4), one_hot, atol=1e-6)


def test_sharpen_lowers_entropy_and_keeps_its_fixed_points():
    p = distributions()
    assert (
        stats.entropy(targets.sharpen(p, 0.5), axis=1) <= stats.entropy(p, axis=1)
    ).all()
    one_hot = np.eye(5, dtype=np.float32)
    np.testing.assert_array_equal(targets.sharpen(one_hot, 0.5), one_hot)
    uniform = jnp.full((2, 5), 0.2)
    np.testing.assert_allclose(targets.sharpen(uniform, 0.5), uniform, rtol=1e-6)


@pytest.mark.parametrize("temperature", [0, -1, float("nan")])
def test_sharpen_refuses(temperature):
    with pytest.raises(ValueError, match="temperature"):
        targets.sharpen(distributions(), temperature)


@pytest.fixture(scope="module")
def mixing_weights():
    return targets.mixing_weights(jax.random.key(0), 4000, 0.75)


def test_mixing_weights_are_the_larger_half_of_a_beta(mixing_weights):
    weight = np.asarray(mixing_weights)
    assert weight.min() >= 0.5
    # Folded at 1/2, the Beta's distribution function is 2 F(x) - 1.
    folded = lambda x: 2 * stats.beta(0.75, 0.75).cdf(x) - 1
    assert stats.kstest(weight, folded).pvalue > 0.01


def test_mixing_weights_without_mixing():
    key = jax.random.key(0)
    np.testing.assert_array_equal(targets.mixing_weights(key, 5, 0), 1)
    tiny = targets.mixing_weights(key, 4000, 1e-3)
    assert np.isfinite(tiny).all() and np.mean(tiny > 0.999) > 0.9
    with pytest.raises(ValueError, match="alpha=-1"):
        targets.mixing_weights(key, 5, -1)


def test_mixup_against_a_loop():
    values = normal(4, 3, 2)
    partner, weight = np.array([2, 0, 3, 3]), np.array([0.5, 0.7, 1, 0.9], np.float32)
    got = targets.mixup(jnp.asarray(values), jnp.asarray(partner), jnp.asarray(weight))
    for i in range(4):
        want = weight[i] * values[i] + (1 - weight[i]) * values[partner[i]]
        np.testing.assert_allclose(got[i], want, rtol=1e-5, atol=1e-6)


def test_mixed_targets_still_sum_to_one(mixing_weights):
    weight = mixing_weights[:20]
    partner = jax.random.permutation(jax.random.key(2), 20)
    mixed = targets.mixup(jnp.asarray(distributions()), partner, weight)
    np.testing.assert_allclose(mixed.sum(1), 1, rtol=1e-5)


def test_moving_average_begins_as_a_plain_mean():
    average, seen = jnp.zeros(3), []
    for t in range(6):
        seen.append(normal(3, seed=t))
        average = targets.moving_average(average, seen[-1], jnp.asarray(t), 0.999)
        np.testing.assert_allclose(average, np.mean(seen, axis=0), rtol=1e-5, atol=1e-6)


def test_moving_average_closes_in_geometrically():
    average, new = jnp.array([1.0]), jnp.array([0.0])
    for t in range(5):
        average = targets.moving_average(average, new, jnp.asarray(t), 0.9, False)
    np.testing.assert_allclose(average, 0.9**5, rtol=1e-6)


def test_moving_average_at_the_ends_of_decay():
    old, new = {"w": jnp.array([1.0])}, {"w": jnp.array([5.0])}
    step = jnp.asarray(9)
    assert targets.moving_average(old, new, step, 0.0, False)["w"] == 5
    assert targets.moving_average(old, new, step, 1.0, False)["w"] == 1
    with pytest.raises(ValueError, match=r"decay=1\.5"):
        targets.moving_average(old, new, step, 1.5)


def test_partner_is_another_row_of_the_class_and_all_are_drawn():
    label = jnp.array([0, 1, 0, 2, 0, 1])
    keys = jax.random.split(jax.random.key(0), 300)
    draw = jax.jit(jax.vmap(targets.same_class_partner, (0, None)))
    drawn = np.asarray(draw(keys, label))
    assert (np.asarray(label)[drawn] == np.asarray(label)[None, :]).all()
    assert set(drawn[:, 0]) == {2, 4}  # never itself
    assert set(drawn[:, 3]) == {3}  # alone in its class
    # 300 even draws among two: a deviation of 5 standard deviations is 43.
    assert abs((drawn[:, 0] == 2).sum() - 150) < 43


def test_nearest_other_against_a_loop():
    h = normal(12, 4)
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    for i, j in enumerate(np.asarray(targets.nearest_other(h))):
        others = [k for k in range(12) if k != i]
        assert j == max(others, key=lambda k: unit[i] @ unit[k])


def test_nearest_other_takes_a_twin_but_never_itself():
    h = jnp.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    nearest = np.asarray(targets.nearest_other(h))
    assert nearest[0] == 1 and nearest[1] == 0
    assert (nearest != np.arange(4)).all()


def test_a_shuffle_is_a_permutation():
    partner = targets.shuffle(jax.random.key(0), 40)
    np.testing.assert_array_equal(np.sort(partner), np.arange(40))
    everywhere = targets.shuffle(jax.random.key(0), 40, jnp.ones(40, bool))
    np.testing.assert_array_equal(everywhere, partner)


@pytest.mark.parametrize("allowed", [1, 7, 20, 39])
def test_a_shuffle_within_some_rows_uses_each_of_them_alike(allowed):
    where = np.random.default_rng(0).permutation(40) < allowed
    partner = np.asarray(targets.shuffle(jax.random.key(1), 40, jnp.asarray(where)))
    uses = np.bincount(partner, minlength=40)
    assert set(uses[~where]) == {0}
    assert set(uses[where]) <= {40 // allowed, -(-40 // allowed)}
    other = np.asarray(targets.shuffle(jax.random.key(2), 40, jnp.asarray(where)))
    assert allowed == 1 or np.any(other != partner)


def test_aligned_predictions_by_hand():
    q = np.array([[0.6, 0.4], [0.6, 0.2]], np.float32)  # the second has 0.2 elsewhere
    share = np.array([0.75, 0.25], np.float32)
    ratio = np.array([[0.8, 1.6], [0.8, 0.8]])
    want = np.array([[1.0], [0.8]]) * ratio / ratio.sum(1, keepdims=True)
    np.testing.assert_allclose(targets.aligned(q, share), want, rtol=1e-6)
    np.testing.assert_allclose(targets.aligned(q, 0 * share + 0.1), q, rtol=1e-6)


def test_a_class_that_is_never_predicted_stays_finite():
    q = np.array([[1.0, 0.0], [0.0, 0.0]], np.float32)
    got = targets.aligned(q, np.array([1.0, 0.0], np.float32))
    np.testing.assert_array_equal(got, q)
