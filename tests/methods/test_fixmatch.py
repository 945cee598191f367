import jax
import jax.numpy as jnp
import numpy as np

from tests.methods.tiny import (
    assert_close,
    gradient,
    predict,
    quick_jit,
    setting,
    value,
)
from upsilon_jax.kernels.losses import cross_entropy
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.fixmatch import fixmatch

C = 5


def online_pseudo_labels(forward, state, batch, threshold):
    """Gradient of mean CE + mean_i 1[max f > τ] CE(z, argmax f), labels held fixed."""
    x = batch.views[0]
    prob = jax.nn.softmax(predict(forward, state, x)["logits"])
    label, chosen = jnp.argmax(prob, 1), jnp.max(prob, 1) > threshold

    def loss(params):
        supervised = baseline(C).loss(forward, params, state, batch, None)[0]
        per_row = cross_entropy(forward(params, (), x, None, True)[0]["logits"], label)
        return supervised + jnp.sum(jnp.where(chosen, per_row, 0)) / x.shape[0]

    return quick_jit(jax.grad(loss))(state.params)


def test_with_one_view_and_no_threshold_it_is_online_pseudo_labeling():
    method = fixmatch(C, threshold=0.0)
    forward, state, batch = setting(method, num_classes=C)
    batch = batch._replace(views=jnp.stack([batch.views[0], batch.views[0]]))
    _, _, grads = gradient(method, forward, state, batch)
    assert_close(grads, online_pseudo_labels(forward, state, batch, -1.0))


def test_a_threshold_above_one_leaves_the_baseline():
    method = fixmatch(C, threshold=1.1)
    forward, state, batch = setting(method, num_classes=C)
    _, aux, grads = gradient(method, forward, state, batch)
    assert aux.metrics["confident"] == 0 and aux.metrics["unlabeled_loss"] == 0
    _, _, want = gradient(baseline(C), forward, state, batch)
    assert_close(grads, want)


def test_labels_come_from_the_weak_view_and_the_mean_is_over_all_rows():
    method = fixmatch(C, threshold=0.35)
    forward, state, batch = setting(method, num_classes=C)
    _, aux, _ = gradient(method, forward, state, batch)
    logits = lambda v: np.asarray(
        predict(forward, state, batch.views[v])["logits"], np.float64
    )
    softmax = lambda z: np.exp(z) / np.exp(z).sum(1, keepdims=True)
    weak, strong = softmax(logits(1)), softmax(logits(0))
    losses = [
        -np.log(strong[i, weak[i].argmax()]) for i in range(8) if weak[i].max() >= 0.35
    ]
    assert 0 < len(losses) < 8
    np.testing.assert_allclose(
        aux.metrics["unlabeled_loss"], np.sum(losses) / 8, rtol=1e-5
    )


def test_a_confidence_of_exactly_the_threshold_counts():
    method = fixmatch(2, threshold=0.5)
    forward, state, batch = setting(method, num_classes=2)
    flat = jax.tree.map(jnp.zeros_like, state.params)  # f = (1/2, 1/2) exactly
    _, aux = value(method, forward, state._replace(params=flat), batch)
    assert aux.metrics["confident"] == 1


def test_no_gradient_through_the_weak_view():
    method = fixmatch(C, threshold=0.0)
    forward, state, batch = setting(method, num_classes=C)

    def loss(weak):
        views = jnp.stack([batch.views[0], weak])
        return method.loss(
            forward, state.params, state, batch._replace(views=views), None
        )[0]

    assert not np.any(quick_jit(jax.grad(loss))(batch.views[1]))
