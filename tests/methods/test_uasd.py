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
    value,
)
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.uasd import uasd
from upsilon_jax.types import Predictions

C = 5


def softmax(forward, state, images):
    return np.asarray(jax.nn.softmax(predict(forward, state, images)["logits"]))


def test_the_bank_sums_predictions_and_its_rows_count_visits():
    method = uasd(C)
    forward, state, batch = setting(method, num_classes=C)
    prob = softmax(forward, state, batch.views[0])
    for visits in range(1, 4):
        _, aux = value(method, forward, state, batch)
        state = state._replace(method=aux.method)
        total = np.asarray(aux.method.total)
        np.testing.assert_allclose(total[batch.index].sum(1), visits, rtol=1e-5)
        np.testing.assert_allclose(total[batch.index] / visits, prob, rtol=1e-5)
    others = np.setdiff1d(np.arange(32), batch.index)
    assert not total[others].any()


def test_an_image_twice_in_a_batch_is_counted_twice():
    method = uasd(C)
    forward, state, batch = setting(method, num_classes=C)
    batch = batch._replace(index=jnp.full(8, 3, jnp.int32))
    _, aux = value(method, forward, state, batch)
    np.testing.assert_allclose(aux.method.total[3].sum(), 8, rtol=1e-5)


def with_bank(state, index, rows):
    total = state.method.total.at[index].set(jnp.asarray(rows, jnp.float32))
    return state._replace(method=state.method._replace(total=total))


def test_only_images_with_a_confident_average_are_distilled():
    method = uasd(C, start_steps=0, ramp_steps=0, initial_threshold=0.5)
    forward, state, batch = setting(method, num_classes=C)
    top = np.array([0.6, 0.5, 0.49, 0.6, 0.3, 0.7, 0.4, 0.5])
    average = np.repeat((1 - top)[:, None] / (C - 1), C, axis=1)
    average[:, 2] = top
    state = with_bank(
        state, batch.index, 2 * average
    )  # two visits: 2 · 0.5 / 2 is exact
    keep = top >= 0.5
    log_p = np.log(softmax(forward, state, batch.views[0]))
    want = np.mean(-(average * log_p).sum(1)[keep])
    _, aux, _ = gradient(method, forward, state, batch)
    np.testing.assert_allclose(aux.metrics["unlabeled_loss"], want, rtol=1e-4)
    np.testing.assert_allclose(aux.metrics["kept"], keep.mean())


@pytest.mark.parametrize("threshold, kept", [(0.0, 0.5), (1.1, 0.0)])
def test_thresholds_that_keep_all_visited_and_none(threshold, kept):
    method = uasd(C, start_steps=0, ramp_steps=0, initial_threshold=threshold)
    forward, state, batch = setting(method, num_classes=C)
    state = with_bank(state, batch.index[:4], np.full((4, C), 0.2))
    _, aux, grads = gradient(method, forward, state, batch)
    assert aux.metrics["kept"] == kept
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))
    if not kept:
        assert aux.metrics["unlabeled_loss"] == 0


def test_before_its_start_it_is_the_baseline_and_then_the_ramp_jumps():
    method = uasd(C, start_steps=100, ramp_steps=200, initial_threshold=0.0)
    forward, state, batch = setting(method, num_classes=C, step=99)
    state = with_bank(state, batch.index, np.full((8, C), 0.2))
    total, _, grads = gradient(method, forward, state, batch)
    want_total, _, want = gradient(baseline(C), forward, state, batch)
    np.testing.assert_allclose(total, want_total, rtol=1e-6)
    assert_close(grads, want)
    state = state._replace(step=jnp.asarray(100, jnp.int32))
    total, aux, _ = gradient(method, forward, state, batch)
    gap = np.exp(-1.25) * aux.metrics["unlabeled_loss"]
    np.testing.assert_allclose(total - want_total, gap, rtol=1e-4)


def refreshed(method, own, logits):
    _, state, _ = setting(method, num_classes=C)
    predictions = Predictions({}, {"logits": logits})
    return method.refresh(state._replace(method=own), predictions, None, None)


def test_the_threshold_is_the_mean_confidence_over_refreshes():
    method = uasd(C)
    own = method.init(None, None, 4)
    assert own.threshold == np.float32(0.9)
    rng, means = np.random.default_rng(0), []
    for k in range(3):
        logits = rng.standard_normal((7, C)).astype(np.float32)
        prob = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        means.append(prob.max(1).mean())
        own = refreshed(method, own, jnp.asarray(logits))
        np.testing.assert_allclose(own.threshold, np.mean(means), rtol=1e-5)
        assert own.refreshes == k + 1


def test_without_validation_images_the_threshold_stays():
    method = uasd(C)
    own = refreshed(method, method.init(None, None, 4), jnp.zeros((0, C)))
    assert own.threshold == np.float32(0.9) and own.refreshes == 0


def test_the_target_has_no_gradient_and_the_bank_none_either():
    method = uasd(C, start_steps=0, ramp_steps=0, initial_threshold=0.0)
    forward, state, batch = setting(method, num_classes=C)
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(C), 8).astype(np.float32)
    state = with_bank(state, batch.index, q)
    # Rows of the bank sum to their visits: only weights tell its entries apart.
    weights = rng.standard_normal((32, C), np.float32)

    def total_of(params):
        bank = method.loss(forward, params, state, batch, None)[1].method
        return jnp.sum(bank.total * weights)

    slopes = quick_jit(jax.grad(total_of))(state.params)
    assert not any(np.any(slope) for slope in jax.tree.leaves(slopes))

    def distilled(params):
        """The loss with q as numbers, which nothing can be differentiated through."""
        z = forward(params, {}, batch.views[0], None, True)[0]["logits"]
        alone = baseline(C).loss(forward, params, state, batch, None)[0]
        return alone - jnp.mean(jnp.sum(q * jax.nn.log_softmax(z), axis=1))

    _, _, got = gradient(method, forward, state, batch)
    assert_close(got, quick_jit(jax.grad(distilled))(state.params))
