import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import (
    assert_close,
    gradient,
    predict,
    quick_jit,
    setting,
    softmax,
    value,
)
from upsilon_jax.methods.fixmatch import fixmatch
from upsilon_jax.methods.softmatch import Confidence, softmatch, truncated_gaussian

C = 5


def by_hand(forward, state, batch, past, decay, n=2.0):
    """((μ, σ², p̄), loss) of a step in float64; `past` are the averages before it."""
    logits = lambda v: np.asarray(
        predict(forward, state, batch.views[v])["logits"], np.float64
    )
    strong, weak = softmax(logits(0)), softmax(logits(1))
    mean, variance, share = past
    now = weak.mean(0)
    share = now if share is None else decay * share + (1 - decay) * now
    u = weak / share
    c = (u / u.sum(1, keepdims=True)).max(1)
    mean = decay * mean + (1 - decay) * c.mean()
    variance = decay * variance + (1 - decay) * ((c - c.mean()) ** 2).sum() / (
        len(c) - 1
    )
    w = np.exp(-(np.minimum(c - mean, 0) ** 2) / (2 * variance / n**2))
    loss = np.mean(w * -np.log(strong[np.arange(len(c)), weak.argmax(1)]))
    return (mean, variance, share), loss


@pytest.mark.parametrize("decay", [0.9, 0.5])
def test_two_steps_by_hand(decay):
    method = softmatch(C, decay=decay)
    forward, state, batch = setting(method, num_classes=C)
    past = (1 / C, 1.0, None)
    for views in (batch.views, batch.views[::-1]):
        batch = batch._replace(views=views)
        total, aux = value(method, forward, state, batch)
        past, want = by_hand(forward, state, batch, past, decay)
        assert_close(tuple(aux.method), past, rtol=1e-5)
        metrics = aux.metrics
        np.testing.assert_allclose(metrics["unlabeled_loss"], want, rtol=1e-5)
        np.testing.assert_allclose(total, metrics["labeled_loss"] + want, rtol=1e-5)
        state = state._replace(method=aux.method)


def test_weights_are_one_from_the_mean_on_and_a_bell_below():
    state = Confidence(jnp.float32(0.7), jnp.float32(0.04), None)
    got = truncated_gaussian(jnp.array([0.9, 0.7, 0.6, 0.5]), state, 2.0)
    np.testing.assert_allclose(got, [1, 1, np.exp(-0.5), np.exp(-2)], rtol=1e-5)
    alike = state._replace(variance=jnp.float32(0))
    np.testing.assert_array_equal(truncated_gaussian(state.mean[None], alike, 2.0), [1])


def test_with_a_bell_of_no_width_it_is_fixmatch():
    """No alignment (p̄ uniform), no averages (d = 1), n → ∞: a threshold at μ."""
    method, tau = softmatch(C, decay=1.0, num_sigmas=1e6), 0.35
    forward, state, batch = setting(method, num_classes=C)
    uniform = jnp.full(C, 1 / C, jnp.float32)
    own = Confidence(jnp.float32(tau), jnp.float32(1), uniform)
    got, aux, grads = gradient(method, forward, state._replace(method=own), batch)
    want, fixed, want_grads = gradient(
        fixmatch(C, threshold=tau), forward, state, batch
    )
    assert 0 < fixed.metrics["confident"] < 1
    assert_close((got, grads), (want, want_grads))
    assert_close(aux.method, own)


def test_the_label_is_that_of_the_network_not_of_the_alignment():
    """However much p̄ turns the aligned prediction, ŷ and so the target stays."""
    method = softmatch(C, decay=1.0)
    forward, state, batch = setting(method, num_classes=C)
    of = lambda share: state._replace(
        method=Confidence(jnp.float32(0), jnp.float32(1), jnp.asarray(share))
    )
    # μ = 0: all weights are 1, so only the labels could differ.
    one, two = (
        value(method, forward, of(share), batch)[0]
        for share in (np.full(C, 0.2), np.array([1e-3, 0.1, 0.1, 0.1, 0.7]))
    )
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_no_gradient_through_the_weak_view():
    method = softmatch(C)
    forward, state, batch = setting(method, num_classes=C)

    def loss(views):
        own = batch._replace(views=views)
        return method.loss(forward, state.params, state, own, None)[0]

    grads = quick_jit(jax.grad(loss))(batch.views)
    assert np.any(grads[0]) and not np.any(grads[1])
