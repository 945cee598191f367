import jax
import jax.numpy as jnp
import numpy as np

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
from upsilon_jax.methods.freematch import Thresholds, fairness, freematch

C = 5


def fairness_by_hand(strong, share, histogram):
    """-H(norm(p̃/h̃), norm(p̄/h̄)) over the classes that are predicted, in float64."""
    here = np.bincount(strong.argmax(1), minlength=strong.shape[1]) / len(strong)
    seen = here > 0
    b = strong.mean(0)[seen] / here[seen]
    a = share / histogram
    return ((a / a.sum())[seen] * np.log(b / b.sum())).sum()


def by_hand(forward, state, batch, past, decay):
    """((τ, p̃, h̃), unlabeled loss, fairness, confident) of a step, in float64."""
    logits = lambda v: np.asarray(
        predict(forward, state, batch.views[v])["logits"], np.float64
    )
    strong, weak = softmax(logits(0)), softmax(logits(1))
    label, c = weak.argmax(1), weak.max(1)
    now = c.mean(), weak.mean(0), np.bincount(label, minlength=C) / len(c)
    tau, share, histogram = (
        decay * old + (1 - decay) * new for old, new in zip(past, now, strict=True)
    )
    chosen = c >= (tau * share / share.max())[label]
    losses = -np.log(strong[np.arange(len(c)), label])
    fair = fairness_by_hand(strong[chosen], share, histogram)
    return (tau, share, histogram), (chosen * losses).mean(), fair, chosen


def test_two_steps_by_hand():
    method = freematch(C, decay=0.3, fairness_weight=0.5, loss_weight=0.7)
    forward, state, batch = setting(method, num_classes=C)
    past = (0.5, np.full(C, 1 / C), np.full(C, 1 / C))
    assert_close(tuple(state.method), (1 / C, *past[1:]))
    state = state._replace(method=state.method._replace(confidence=jnp.float32(0.5)))
    for views in (batch.views, batch.views[::-1]):
        batch = batch._replace(views=views)
        total, aux = value(method, forward, state, batch)
        past, want, fair, chosen = by_hand(forward, state, batch, past, 0.3)
        assert 0 < chosen.sum() < len(chosen)
        assert_close(tuple(aux.method), past, rtol=1e-5)
        metrics = aux.metrics
        np.testing.assert_allclose(metrics["unlabeled_loss"], want, rtol=1e-5)
        np.testing.assert_allclose(metrics["fairness_loss"], fair, rtol=1e-4)
        parts = metrics["labeled_loss"] + 0.7 * want + 0.5 * fair
        np.testing.assert_allclose(total, parts, rtol=1e-5)
        state = state._replace(method=aux.method)


def even(tau, num_classes=C):
    uniform = jnp.full(num_classes, 1 / num_classes, jnp.float32)
    return Thresholds(jnp.float32(tau), uniform, uniform)


def test_with_fixed_even_thresholds_it_is_fixmatch():
    method, tau = freematch(C, decay=1.0, fairness_weight=0.0), 0.35
    forward, state, batch = setting(method, num_classes=C)
    state = state._replace(method=even(tau))
    got, aux, grads = gradient(method, forward, state, batch)
    want, fixed, want_grads = gradient(
        fixmatch(C, threshold=tau), forward, state, batch
    )
    assert 0 < fixed.metrics["confident"] < 1
    assert_close((got, grads), (want, want_grads))
    assert_close(aux.method, state.method)


def test_a_rare_class_has_a_lower_threshold():
    method = freematch(C, decay=1.0)
    forward, state, batch = setting(method, num_classes=C)
    weak = softmax(np.asarray(predict(forward, state, batch.views[1])["logits"]))
    share = np.full(C, 0.01)
    share[4] = 1.0  # only of class 4 as much as τ is asked
    own = even(0.9)._replace(share=jnp.asarray(share, jnp.float32))
    _, aux = value(method, forward, state._replace(method=own), batch)
    assert (weak.max(1) < 0.9).all() and (weak.argmax(1) != 4).any()
    np.testing.assert_allclose(
        aux.metrics["confident"], (weak.argmax(1) != 4).mean(), rtol=1e-6
    )


def test_fairness_of_two_classes_and_without_rows():
    state = even(0.5, 2)
    of = lambda prob, weight: float(
        fairness(jnp.asarray(prob, jnp.float32), jnp.asarray(weight), state)
    )
    np.testing.assert_allclose(of(np.eye(2), [1.0, 1.0]), -np.log(2), rtol=1e-6)
    want = (np.log(0.7) + np.log(0.3)) / 2  # p̄ = (0.7, 0.3), h̄ = (1/2, 1/2)
    got = of([[1.0, 0.0], [0.4, 0.6]], [1.0, 1.0])
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert of(np.eye(2), [1.0, 0.0]) == 0  # one class alone
    assert of(np.eye(2), [0.0, 0.0]) == 0
    slope = jax.grad(lambda p: fairness(p, jnp.zeros(2), state))(jnp.eye(2))
    assert not np.any(slope)  # and no NaN


def test_fairness_is_finite_for_a_class_that_nothing_is_taken_for():
    state = even(0.5, 2)._replace(histogram=jnp.float32([1, 0]))
    prob = jnp.float32([[0.9, 0.1], [0.2, 0.8]])
    value, slope = jax.value_and_grad(fairness)(prob, jnp.ones(2), state)
    assert np.isfinite(value) and np.isfinite(slope).all()
    state = state._replace(share=jnp.float32([1, 0]))
    assert np.isfinite(fairness(prob, jnp.ones(2), state))


def test_no_gradient_through_the_weak_view_nor_for_rows_that_do_not_count():
    method = freematch(C, decay=1.0, fairness_weight=0.5)
    forward, state, batch = setting(method, num_classes=C)
    state = state._replace(method=even(0.35))
    weak = softmax(np.asarray(predict(forward, state, batch.views[1])["logits"]))

    def loss(views):
        own = batch._replace(views=views)
        return method.loss(forward, state.params, state, own, None)[0]

    grads = np.asarray(quick_jit(jax.grad(loss))(batch.views))
    assert not np.any(grads[1])
    moved = np.any(grads[0], axis=(1, 2, 3))
    np.testing.assert_array_equal(moved, weak.max(1) >= 0.35)
