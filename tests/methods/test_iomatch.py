import jax
import jax.numpy as jnp
import numpy as np

from tests.methods.tiny import (
    assert_close,
    gradient,
    quick_jit,
    setting,
    softmax,
    value,
)
from upsilon_jax.methods.fixmatch import fixmatch
from upsilon_jax.methods.iomatch import iomatch, open_targets

C, M = 3, 8


def cross_entropy(z, target):
    return -(target * np.log(softmax(z))).sum(1)


def heads_of(forward, state, images):
    outputs, _ = forward(state.params, (), images, None, True)
    return {name: np.asarray(z, np.float64) for name, z in outputs.items()}


def by_hand(forward, state, batch, tau, tau_q, share=None):
    """The four terms in float64; `share` is what p is aligned by."""
    strong, weak = (heads_of(forward, state, view) for view in batch.views)
    known = heads_of(forward, state, batch.image[0])
    label, rows = np.asarray(batch.label), np.arange(len(batch.label))
    p, pair = softmax(weak["logits"]), softmax(weak["open"])
    if share is not None:
        p = p / share / (p / share).sum(1, keepdims=True)
    q = np.column_stack([p * pair[:, 1], (p * pair[:, 0]).sum(1)])
    np.testing.assert_allclose(q.sum(1), 1)
    chosen = (q[:, C] < 0.5) & (p.max(1) >= tau)
    sure = q.max(1) >= tau_q
    log = -np.log(softmax(known["open"]))
    negatives = log[:, 0].copy()
    negatives[rows, label] = -np.inf
    return {
        "labeled_loss": cross_entropy(known["logits"], np.eye(C)[label]).mean(),
        "ova_loss": (log[rows, 1, label] + negatives.max(1)).mean(),
        "unlabeled_loss": (chosen * cross_entropy(strong["logits"], p)).mean(),
        "open_loss": (sure * cross_entropy(strong["inliers_outliers"], q)).mean(),
    }, (chosen, sure, softmax(weak["logits"]))


def test_every_term_by_hand():
    weights = {"ova_weight": 0.5, "open_weight": 0.3, "loss_weight": 0.7}
    method = iomatch(C, threshold=0.4, open_threshold=0.45, start_steps=0, **weights)
    forward, state, batch = setting(method, num_classes=C)
    want, (chosen, sure, _) = by_hand(forward, state, batch, 0.4, 0.45)
    assert 0 < chosen.sum() < M and 0 < sure.sum() < M
    total, aux = value(method, forward, state, batch)
    assert_close({name: aux.metrics[name] for name in want}, want, rtol=1e-5)
    parts = want["labeled_loss"] + 0.5 * want["ova_loss"]
    parts += 0.7 * want["unlabeled_loss"] + 0.3 * want["open_loss"]
    np.testing.assert_allclose(total, parts, rtol=1e-5)


def test_alignment_is_by_the_mean_of_the_last_batches():
    method = iomatch(C, threshold=0.4, start_steps=0, align_batches=2)
    forward, state, batch = setting(method, num_classes=C)
    means = []
    for step in range(3):
        batch = batch._replace(views=batch.views[::-1] * (1 + step))
        state = state._replace(step=jnp.int32(step))
        means.append(by_hand(forward, state, batch, 0, 0)[1][-1].mean(0))
        share = np.mean(means[-2:], axis=0)
        want, _ = by_hand(forward, state, batch, 0.4, 0.5, share)
        _, aux = value(method, forward, state, batch)
        assert_close({name: aux.metrics[name] for name in want}, want, rtol=1e-5)
        state = state._replace(method=aux.method)
    assert_close(np.sort(aux.method, 0), np.sort(means[1:], 0), rtol=1e-5)


def test_silent_detectors_give_the_known_values():
    """o = 1/2 everywhere, so q_{C+1} = 1/2."""
    method = iomatch(C, threshold=0.0, start_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    silent = state.params | {"open_kernel": 0 * state.params["open_kernel"]}
    _, aux = value(method, forward, state._replace(params=silent), batch)
    np.testing.assert_allclose(aux.metrics["ova_loss"], 2 * np.log(2), rtol=1e-6)
    q = open_targets(jnp.array([[0.25, 0.75]]), jnp.zeros((1, 2, 2)))
    np.testing.assert_array_equal(q, [[0.125, 0.375, 0.5]])


def test_where_all_are_surely_inliers_the_classifier_learns_as_in_fixmatch():
    """Peaked p are hard labels; all other terms are off."""
    off = {"ova_weight": 0, "open_weight": 0}
    method, alone = iomatch(C, start_steps=0, **off), fixmatch(C)
    forward, state, batch = setting(method, num_classes=C)
    peaked = {"logits_kernel": 300 * state.params["logits_kernel"]}
    state = state._replace(params=state.params | peaked)

    def inlying(*args):
        outputs, stats = forward(*args)
        yes = jnp.broadcast_to(jnp.array([[-9.0], [9.0]]), outputs["open"].shape)
        return outputs | {"open": yes}, stats

    got, aux, grads = gradient(method, inlying, state, batch)
    want, fixed, want_grads = gradient(alone, forward, state, batch)
    assert aux.metrics["inliers"] == 1 and fixed.metrics["confident"] > 0
    assert aux.metrics["confident"] == fixed.metrics["confident"]
    np.testing.assert_allclose(got, want, rtol=1e-4)
    assert_close(grads["logits_kernel"], want_grads["logits_kernel"], rtol=1e-3)


def test_the_open_term_waits_and_weak_views_have_no_gradient():
    method = iomatch(C, threshold=0.0, open_threshold=0.0, start_steps=5)
    forward, state, batch = setting(method, num_classes=C, step=4)
    _, aux = value(method, forward, state, batch)
    assert aux.metrics["open_loss"] == 0
    state = state._replace(step=jnp.int32(5))
    _, aux = value(method, forward, state, batch)
    assert aux.metrics["open_loss"] > 0

    def loss(views):
        own = batch._replace(views=views)
        return method.loss(forward, state.params, state, own, None)[0]

    grads = quick_jit(jax.grad(loss))(batch.views)
    assert np.any(grads[0]) and not np.any(grads[1])
