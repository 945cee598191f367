import jax
import jax.numpy as jnp
import numpy as np

from tests.methods.tiny import (
    assert_close,
    gradient,
    images_seen,
    predict,
    quick_jit,
    setting,
)
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.mixmatch import mixmatch

C = 5


def mixture(method, step=0):
    """The mixed images, (loss, Aux), and the setting they came from."""
    forward, state, batch = setting(method, num_classes=C, step=step)
    [mixed], result = images_seen(method, forward, state, batch, [1])
    return np.asarray(mixed), result, (forward, state, batch)


def test_without_mixing_and_weight_it_is_the_baseline():
    method = mixmatch(C, alpha=0.0, loss_weight=0.0)
    forward, state, batch = setting(method, num_classes=C)
    total, _, grads = gradient(method, forward, state, batch)
    want_total, _, want = gradient(baseline(C), forward, state, batch)
    np.testing.assert_allclose(total, want_total, rtol=1e-6)
    assert_close(grads, want)


def test_without_mixing_the_loss_is_that_of_its_definition():
    method = mixmatch(C, alpha=0.0, loss_weight=75.0, ramp_steps=100)
    mixed, (total, aux), (forward, state, batch) = mixture(method, step=50)
    prob = [
        np.asarray(jax.nn.softmax(predict(forward, state, v)["logits"]))
        for v in batch.views
    ]
    q = np.mean(prob, axis=0) ** 2
    q /= q.sum(1, keepdims=True)
    want = np.mean((np.concatenate(prob) - np.concatenate([q, q])) ** 2)
    np.testing.assert_allclose(aux.metrics["unlabeled_loss"], want, rtol=1e-4)
    weighted = aux.metrics["labeled_loss"] + 75 * 0.5 * want
    np.testing.assert_allclose(total, weighted, rtol=1e-4)
    np.testing.assert_array_equal(mixed[:8], batch.image[0])


def partners_of(rows, mixed):
    """(partner, λ) of every row from mixed_i - x_i = (1 - λ)(x_j - x_i)."""
    found = []
    for i, (row, mixture) in enumerate(zip(rows, mixed, strict=True)):
        fits = []
        for j, other in enumerate(rows):
            d, e = other - row, mixture - row
            share = d @ e / (d @ d) if j != i else 0.0
            fits.append((np.abs(e - share * d).max(), j, 1 - share))
        error, j, weight = min(fits)
        assert error < 1e-5
        found.append((j, weight))
    return np.array([j for j, _ in found]), np.array([w for _, w in found])


def test_images_and_targets_mix_across_the_joint_batch():
    images, (_, aux), (forward, state, batch) = mixture(mixmatch(C))
    rows = np.concatenate([batch.image[0], *batch.views]).reshape(24, -1)
    partner, weight = partners_of(rows.astype(np.float64), images.reshape(24, -1))
    told = weight < 1 - 1e-6  # else the partner cannot be told, and does not matter
    assert weight.min() >= 0.5 and np.std(weight) > 0.01
    assert len(set(partner[told])) == told.sum()  # a permutation
    assert np.any((np.arange(24) < 8) != (partner < 8))  # of both halves

    softmax = lambda x: np.asarray(jax.nn.softmax(predict(forward, state, x)["logits"]))
    q = np.mean([softmax(view) for view in batch.views], axis=0) ** 2
    q /= q.sum(1, keepdims=True)
    target = np.concatenate([np.eye(C)[batch.label], q, q])
    target = weight[:, None] * target + (1 - weight)[:, None] * target[partner]
    p = softmax(images)
    np.testing.assert_allclose(
        aux.metrics["labeled_loss"],
        np.mean(-np.sum(target * np.log(p), axis=1)[:8]),
        rtol=1e-4,
    )
    np.testing.assert_allclose(
        aux.metrics["unlabeled_loss"], np.mean((p - target)[8:] ** 2), rtol=1e-4
    )


def test_targets_carry_no_gradient():
    method = mixmatch(C, alpha=0.0, loss_weight=1.0, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    _, _, grads = gradient(method, forward, state, batch)
    views = jnp.concatenate([batch.views[0], batch.views[1]])
    prob = lambda params: jax.nn.softmax(
        forward(params, (), views, None, True)[0]["logits"]
    )
    q = jnp.mean(prob(state.params).reshape(2, 8, C), axis=0) ** 2
    q /= jnp.sum(q, axis=1, keepdims=True)

    def fixed_targets(params):
        supervised = baseline(C).loss(forward, params, state, batch, None)[0]
        return supervised + jnp.mean((prob(params) - jnp.concatenate([q, q])) ** 2)

    want = quick_jit(jax.grad(fixed_targets))(state.params)
    assert_close(grads, want)


def test_the_ramp_is_linear_and_starts_at_zero():
    _, (total, aux), _ = mixture(mixmatch(C), step=0)
    np.testing.assert_array_equal(total, aux.metrics["labeled_loss"])
