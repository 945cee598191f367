import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from upsilon_jax.kernels import losses

# float32 against a float64 oracle: a few roundings of numbers of order one.
ROUNDING = dict(rtol=1e-5, atol=1e-6)


def logits(*shape, seed=0):
    return 3 * np.random.default_rng(seed).standard_normal(shape, np.float32)


def labels(seed=0):
    """Of six rows, among five classes."""
    return np.random.default_rng(seed).integers(0, 5, 6)


def softmax(z, axis=-1):
    return special.softmax(z.astype(np.float64), axis)


def test_cross_entropy_is_the_negative_log_probability():
    z, label = logits(5, 4), np.array([0, 3, 1, 2, 2])
    want = -np.log(softmax(z)[np.arange(5), label])
    np.testing.assert_allclose(losses.cross_entropy(z, label), want, **ROUNDING)


def test_cross_entropy_of_no_label_is_finite_and_that_of_class_zero():
    z = logits(3, 4)
    got = losses.cross_entropy(z, np.array([-1, -1, -1]))
    np.testing.assert_array_equal(got, losses.cross_entropy(z, np.zeros(3, int)))


def test_a_confident_teacher_gives_its_best_id_class_to_the_other_view():
    z = np.float32([[1, 2, 3], [3, 2, 1], [0, 0, 0]])
    # The third output is no class: it can make a row unsure, but is never a label.
    teacher = np.log(np.float32([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.1, 0.6]]))
    got, confident = losses.confident_cross_entropy(z, teacher, 2, threshold=0.45)
    np.testing.assert_array_equal(confident, [1, 1, 0])
    want = losses.cross_entropy(z, np.array([0, 1, 0])) * confident
    np.testing.assert_array_equal(got, want)
    slope = jax.grad(lambda q: losses.confident_cross_entropy(z, q, 2, 0.45)[0].sum())
    assert not np.any(slope(teacher))


def test_soft_cross_entropy_of_a_one_hot_target_is_the_cross_entropy():
    z, label = logits(6, 5), labels()
    soft = losses.soft_cross_entropy(z, np.eye(5, dtype=np.float32)[label])
    np.testing.assert_allclose(soft, losses.cross_entropy(z, label), **ROUNDING)


def test_soft_cross_entropy_against_numpy():
    z, target = logits(6, 5), softmax(logits(6, 5, seed=1)).astype(np.float32)
    want = -(target * np.log(softmax(z))).sum(1)
    np.testing.assert_allclose(losses.soft_cross_entropy(z, target), want, **ROUNDING)


def test_squared_error_averages_over_classes_and_is_at_most_two_over_c():
    one, other = (
        np.eye(5, dtype=np.float32)[[0, 1]],
        np.eye(5, dtype=np.float32)[[3, 1]],
    )
    np.testing.assert_allclose(losses.squared_error(one, other), [2 / 5, 0])


def test_kl_divergence_against_scipy():
    a, b = logits(7, 5), logits(7, 5, seed=1)
    want = stats.entropy(softmax(a), softmax(b), axis=1)
    np.testing.assert_allclose(losses.kl_divergence(a, b), want, **ROUNDING)


def test_kl_divergence_of_equal_and_of_saturated_logits():
    a = logits(4, 5)
    shifted = a + 7  # a constant per row changes no softmax
    np.testing.assert_allclose(losses.kl_divergence(a, shifted), 0, atol=1e-6)
    far = np.array([[200.0, -200.0]], np.float32)
    np.testing.assert_allclose(losses.kl_divergence(far, -far), 400, rtol=1e-6)


def test_entropy_against_scipy_and_at_its_ends():
    p = softmax(logits(4, 6)).astype(np.float32)
    np.testing.assert_allclose(
        losses.entropy(p), stats.entropy(p.astype(np.float64), axis=1), **ROUNDING
    )
    np.testing.assert_allclose(losses.entropy(jnp.full(6, 1 / 6)), np.log(6), rtol=1e-6)
    assert losses.entropy(jnp.array([1.0, 0.0, 0.0])) == 0


def test_one_vs_all_against_a_loop():
    o, label = logits(6, 2, 5), labels()
    p = softmax(o, axis=1)
    want = []
    for i, y in enumerate(label):
        negatives = [-np.log(p[i, 0, j]) for j in range(5) if j != y]
        want.append(-np.log(p[i, 1, y]) + max(negatives))
    np.testing.assert_allclose(losses.one_vs_all(o, label), want, **ROUNDING)


def test_one_vs_all_at_zero_and_with_one_class():
    zero = jnp.zeros((3, 2, 4))
    got = losses.one_vs_all(zero, jnp.array([0, 1, 2]))
    np.testing.assert_allclose(got, 2 * np.log(2), rtol=1e-6)
    single = losses.one_vs_all(jnp.zeros((2, 2, 1)), jnp.array([0, 0]))
    np.testing.assert_allclose(single, np.log(2), rtol=1e-6)


@pytest.mark.parametrize("o", [logits(6, 2, 5), np.zeros((6, 2, 5), np.float32)])
def test_one_vs_all_moves_one_positive_and_one_negative_detector_per_row(o):
    label = jnp.asarray(labels())
    grads = jax.grad(lambda o: jnp.sum(losses.one_vs_all(o, label)))(jnp.asarray(o))
    touched = np.any(np.asarray(grads) != 0, axis=1)  # [B, C]
    assert (touched.sum(axis=1) == 2).all()
    assert touched[np.arange(6), label].all()


def test_detector_entropy_is_log_two_at_zero_and_zero_when_sure():
    zero = jnp.zeros((3, 2, 4))
    np.testing.assert_allclose(losses.detector_entropy(zero), np.log(2), rtol=1e-6)
    sure = jnp.zeros((3, 2, 4)).at[:, 1].set(200.0)
    np.testing.assert_array_equal(losses.detector_entropy(sure), 0)


def test_detector_losses_against_numpy_and_their_layout():
    a, b = logits(4, 2, 5), logits(4, 2, 5, seed=1)
    p, q = softmax(a, axis=1), softmax(b, axis=1)
    np.testing.assert_allclose(
        losses.detector_entropy(a), stats.entropy(p, axis=1).mean(1), **ROUNDING
    )
    consistency = losses.detector_consistency(a, b)
    np.testing.assert_allclose(consistency, ((p - q) ** 2).sum((1, 2)), **ROUNDING)
    np.testing.assert_array_equal(consistency, losses.detector_consistency(b, a))
    opposite = jnp.zeros((1, 2, 5)).at[:, 0].set(200.0)
    np.testing.assert_allclose(losses.detector_consistency(opposite, -opposite), 10)


def test_pair_loss_against_numpy():
    a, b = logits(6, 4), logits(6, 4, seed=1)
    want = -np.log((softmax(a) * softmax(b)).sum(1))
    np.testing.assert_allclose(losses.pair_loss(a, b), want, **ROUNDING)


def test_pair_loss_is_zero_only_for_the_same_one_hot_and_never_infinite():
    same = jnp.array([[200.0, 0.0, 0.0]])
    other = jnp.array([[0.0, 200.0, 0.0]])
    assert losses.pair_loss(same, same)[0] == 0
    assert losses.pair_loss(jnp.zeros((1, 3)), same)[0] > 1
    value, grad = jax.value_and_grad(lambda a: losses.pair_loss(a, other)[0])(same)
    np.testing.assert_allclose(value, 200 - np.log(2), rtol=1e-6)
    assert np.isfinite(grad).all() and np.any(grad != 0)


def test_weighted_mean_and_its_empty_case():
    values, weight = jnp.array([1.0, 2.0, 6.0]), jnp.array([0.5, 0.0, 1.5])
    np.testing.assert_allclose(losses.weighted_mean(values, weight), 9.5 / 2)
    nothing = jnp.zeros(3)
    value, grad = jax.value_and_grad(losses.weighted_mean)(values, nothing)
    assert value == 0
    np.testing.assert_array_equal(grad, 0)


def test_sigmoid_ramp_at_its_marks():
    ramp = lambda t: float(losses.sigmoid_ramp(jnp.asarray(t), 100))
    assert ramp(0) == pytest.approx(np.exp(-5))
    assert ramp(50) == pytest.approx(np.exp(-1.25))
    assert ramp(100) == ramp(1000) == 1
    assert ramp(-5) == ramp(0)
    assert losses.sigmoid_ramp(jnp.asarray(0), 0) == 1


def test_linear_ramp_at_its_marks():
    ramp = lambda t: float(losses.linear_ramp(jnp.asarray(t), 100))
    assert [ramp(0), ramp(25), ramp(100), ramp(101)] == [0, 0.25, 1, 1]
    assert losses.linear_ramp(jnp.asarray(0), 0) == 1
