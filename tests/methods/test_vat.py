import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import (
    assert_close,
    gradient,
    images_seen,
    predict,
    setting,
    value,
)
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.vat import vat

C = 5


def perturbed(method, batch_norm=False):
    """(clean images, perturbed images, Aux) of one loss."""
    forward, state, batch = setting(method, num_classes=C, batch_norm=batch_norm)
    (clean, moved), (_, aux) = images_seen(method, forward, state, batch, (1, -1))
    return clean, moved, aux


def test_the_perturbation_has_the_radius_on_every_image():
    clean, moved, aux = perturbed(vat(C, radius=6.0, ramp_steps=0), batch_norm=True)
    r = np.asarray(moved - clean).reshape(8, -1)
    np.testing.assert_allclose(np.linalg.norm(r, axis=1), 6, rtol=1e-3)
    assert aux.metrics["unlabeled_loss"] > 0


def test_the_direction_is_worse_than_random_ones():
    method = vat(C, radius=0.5, num_iters=3, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    adversarial = value(method, forward, state, batch)
    x = batch.views[0]
    logits = lambda images: predict(forward, state, images)["logits"]
    clean = jax.nn.log_softmax(logits(x))
    for seed in range(5):
        d = jax.random.normal(jax.random.key(seed), x.shape)
        d /= jnp.sqrt(jnp.sum(d**2, (1, 2, 3), keepdims=True))
        moved = jax.nn.log_softmax(logits(x + 0.5 * d))
        random = jnp.mean(jnp.sum(jnp.exp(clean) * (clean - moved), 1))
        assert adversarial[1].metrics["unlabeled_loss"] > random


@pytest.mark.parametrize("batch_norm", [False, True])
def test_without_radius_the_term_vanishes(batch_norm):
    method = vat(C, radius=0.0, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C, batch_norm=batch_norm)
    _, aux, grads = gradient(method, forward, state, batch)
    # Rounding of a difference of two equal log-softmaxes.
    np.testing.assert_allclose(aux.metrics["unlabeled_loss"], 0, atol=1e-7)
    if not batch_norm:
        _, _, want = gradient(baseline(C), forward, state, batch)
        assert_close(grads, want)


def test_a_constant_network_gives_zero_and_no_nan():
    method = vat(C, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    flat = state.params | {"logits_kernel": 0 * state.params["logits_kernel"]}
    total, aux, grads = gradient(method, forward, state._replace(params=flat), batch)
    assert aux.metrics["unlabeled_loss"] == 0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((total, grads)))


def test_both_directions_of_the_divergence():
    values = []
    for reverse in (False, True):
        method = vat(C, radius=2.0, reverse_kl=reverse, ramp_steps=0)
        forward, state, batch = setting(method, num_classes=C)
        *images, aux = perturbed(method)
        logits = [np.asarray(predict(forward, state, x)["logits"]) for x in images]
        p, q = (np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in logits)
        p, q = (q, p) if reverse else (p, q)
        want = np.mean(np.sum(p * np.log(p / q), axis=1))
        np.testing.assert_allclose(aux.metrics["unlabeled_loss"], want, rtol=1e-4)
        values.append(want)
    assert abs(values[0] - values[1]) > 1e-4


def test_weight_follows_the_ramp():
    method = vat(C, loss_weight=0.3, ramp_steps=100)
    forward, state, batch = setting(method, num_classes=C, step=0)
    total, aux, _ = gradient(method, forward, state, batch)
    extra = total - aux.metrics["labeled_loss"]
    want = 0.3 * np.exp(-5) * aux.metrics["unlabeled_loss"]
    np.testing.assert_allclose(extra, want, rtol=1e-2)  # a small part of the total
