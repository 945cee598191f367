import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import assert_close, gradient, quick_jit, setting, value
from upsilon_jax.methods.openmatch import openmatch
from upsilon_jax.types import Predictions

C = 5


def test_silent_detectors_give_the_known_values():
    method = openmatch(C)
    forward, state, batch = setting(method, num_classes=C)
    silent = state.params | {"open_kernel": 0 * state.params["open_kernel"]}
    _, aux = value(method, forward, state._replace(params=silent), batch)
    np.testing.assert_allclose(aux.metrics["ova_loss"], 2 * np.log(2), rtol=1e-6)
    np.testing.assert_allclose(aux.metrics["entropy_loss"], np.log(2), rtol=1e-6)
    assert aux.metrics["consistency_loss"] == 0


def test_all_weights_off_leave_the_baseline_on_two_views():
    method = openmatch(C, ova_weight=0, entropy_weight=0, consistency_weight=0)
    forward, state, batch = setting(method, num_classes=C)
    _, _, grads = gradient(method, forward, state, batch)

    def two_views(params):
        logits = [forward(params, (), v, None, True)[0]["logits"] for v in batch.image]
        log_p = jax.nn.log_softmax(jnp.concatenate(logits))
        return -jnp.mean(log_p[jnp.arange(16), jnp.tile(batch.label, 2)])

    want = quick_jit(jax.grad(two_views))(state.params)
    assert_close(grads, want)
    assert not np.any(grads["open_kernel"])


def test_swapping_the_views_changes_no_detector_term():
    method = openmatch(C)
    forward, state, batch = setting(method, num_classes=C)
    metrics = [
        value(method, forward, state, b)[1].metrics
        for b in (batch, batch._replace(views=batch.views[::-1]))
    ]
    for name in ("entropy_loss", "consistency_loss"):
        np.testing.assert_allclose(metrics[0][name], metrics[1][name], rtol=1e-5)
    assert 0 < metrics[0]["consistency_loss"] <= 2 * C


def test_fixmatch_runs_on_inliers_from_its_start():
    method = openmatch(C, start_steps=10)
    forward, state, batch = setting(method, num_classes=C, step=9)
    state = state._replace(method=state.method.at[batch.index[:3]].set(1))
    _, before = value(method, forward, state, batch)
    assert before.metrics["unlabeled_loss"] == 0
    state = state._replace(step=jnp.asarray(10, jnp.int32))
    total, after = value(method, forward, state, batch)
    logits = lambda v: forward(state.params, (), batch.views[v], None, True)[0][
        "logits"
    ]
    label = np.argmax(logits(1), axis=1)
    log_p = np.asarray(jax.nn.log_softmax(logits(0)))
    want = -np.mean(log_p[np.arange(3), label[:3]])
    np.testing.assert_allclose(after.metrics["unlabeled_loss"], want, rtol=1e-5)
    m = after.metrics
    parts = m["labeled_loss"] + m["ova_loss"] + 0.1 * m["entropy_loss"]
    parts += 0.5 * m["consistency_loss"] + want
    np.testing.assert_allclose(total, parts, rtol=1e-5)


def test_without_inliers_the_term_is_zero_and_finite():
    method = openmatch(C, start_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    total, aux, grads = gradient(method, forward, state, batch)
    assert aux.metrics["unlabeled_loss"] == 0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((total, grads)))


def test_no_gradient_through_the_weak_view_of_fixmatch():
    method = openmatch(
        C, ova_weight=0, entropy_weight=0, consistency_weight=0, start_steps=0
    )
    forward, state, batch = setting(method, num_classes=C)
    state = state._replace(method=jnp.ones_like(state.method))

    def loss(views):
        own = batch._replace(views=views)
        return method.loss(forward, state.params, state, own, None)[0]

    grads = quick_jit(jax.grad(loss))(batch.views)
    assert np.any(grads[0]) and not np.any(grads[1])


@pytest.fixture
def refreshed():
    def refresh(logits, opened, where):
        method = openmatch(C)
        _, state, _ = setting(method, num_classes=C)
        unlabeled = {"logits": jnp.asarray(logits), "open": jnp.asarray(opened)}
        return np.asarray(
            method.refresh(state, Predictions(unlabeled, {}), jnp.asarray(where), None)
        )

    return refresh


def test_inliers_against_a_loop(refreshed):
    rng = np.random.default_rng(0)
    logits, opened = rng.standard_normal((32, C)), rng.standard_normal((32, 2, C))
    where = np.arange(32) < 30
    inlier = refreshed(logits, opened, where)
    for i in range(32):
        j = logits[i].argmax()
        assert inlier[i] == (where[i] and opened[i, 1, j] > opened[i, 0, j])
    assert 0 < inlier.sum() < 30


def test_an_undecided_detector_is_no_inlier(refreshed):
    logits, opened = np.zeros((32, C)), np.zeros((32, 2, C))
    assert not refreshed(logits, opened, np.ones(32, bool)).any()
