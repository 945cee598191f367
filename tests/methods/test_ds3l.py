import jax
import jax.numpy as jnp
import numpy as np

from tests.methods.test_fixmatch import online_pseudo_labels
from tests.methods.tiny import (
    assert_close,
    assert_same,
    gradient,
    quick_jit,
    setting,
    to_double,
    value,
)
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.ds3l import ds3l, sample_weight

C = 5
BETA_1 = 0.9  # Adam's first moment after one step is (1 - β₁) g


def alpha_gradient(method, forward, state, batch):
    own = quick_jit(lambda s, b: method.adapt(forward, s, b, None))(state, batch)
    return jax.tree.map(lambda m: m / (1 - BETA_1), own.opt[0].mu)


def test_alpha_gradient_against_finite_differences_through_batch_norm(x64):
    rate, weight = 0.3, 0.7
    method = ds3l(C, threshold=0.3, meta_learning_rate=rate, loss_weight=weight,
                  ramp_steps=0, num_hidden=6)  # fmt: skip
    forward, state, batch = setting(method, num_classes=C, batch_norm=True)
    state, batch = to_double(state), to_double(batch)
    got = alpha_gradient(method, forward, state, batch)

    def cross_entropy(logits, label):
        log_p = jax.nn.log_softmax(logits)
        return -log_p[jnp.arange(logits.shape[0]), label]

    def after_a_step(alpha):
        def inner(theta):
            images = jnp.concatenate([batch.image[0], batch.views[0]])
            logits = forward(theta, state.stats, images, None, True)[0]["logits"]
            f = jax.nn.softmax(logits[8:])
            u = jnp.where(f.max(1) > 0.3, cross_entropy(logits[8:], f.argmax(1)), 0)
            w = sample_weight(alpha, f)
            return cross_entropy(logits[:8], batch.label).mean() + weight * (
                (w * u).sum() / w.sum()
            )

        slope = jax.grad(inner)(state.params)
        ahead = jax.tree.map(lambda p, g: p - rate * g, state.params, slope)
        logits = forward(ahead, state.stats, batch.image[0], None, True)[0]["logits"]
        return cross_entropy(logits, batch.label).mean()

    after_a_step = quick_jit(after_a_step)
    alpha, h = state.method.params, 1e-4  # errors of order h² = 1e-8 of the slope
    rng = np.random.default_rng(0)
    for _ in range(3):
        d = jax.tree.map(lambda x: jnp.asarray(rng.standard_normal(x.shape)), alpha)
        move = lambda h, d=d: jax.tree.map(lambda a, b: a + h * b, alpha, d)
        want = (after_a_step(move(h)) - after_a_step(move(-h))) / (2 * h)
        slope = sum(jnp.vdot(got[k], d[k]) for k in alpha)
        assert abs(want) > 1e-6
        np.testing.assert_allclose(slope, want, rtol=1e-5)


def test_without_a_look_ahead_step_alpha_has_no_gradient():
    method = ds3l(C, threshold=0.3, meta_learning_rate=0.0, ramp_steps=0)
    grads = alpha_gradient(method, *setting(method, num_classes=C))
    assert not any(np.any(g) for g in jax.tree.leaves(grads))


def test_nothing_confident_is_the_baseline_and_gives_alpha_no_gradient():
    method = ds3l(C, threshold=1.0, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    grads = alpha_gradient(method, forward, state, batch)
    assert not any(np.any(g) for g in jax.tree.leaves(grads))
    _, aux, grads = gradient(method, forward, state, batch)
    assert aux.metrics["unlabeled_loss"] == 0
    _, _, want = gradient(baseline(C), forward, state, batch)
    assert_close(grads, want)


def test_constant_weights_are_online_pseudo_labeling():
    method = ds3l(C, threshold=0.3, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    want = online_pseudo_labels(forward, state, batch, 0.3)
    for level in (-2.0, 0.0, 3.0):  # sigmoid(level) for all: the scale cancels
        alpha = jax.tree.map(jnp.zeros_like, state.method.params)
        alpha["bias_2"] += level
        constant = state._replace(method=state.method._replace(params=alpha))
        _, _, grads = gradient(method, forward, constant, batch)
        assert_close(grads, want)


def test_the_loss_leaves_alpha_alone_and_sends_it_no_gradient():
    method = ds3l(C, threshold=0.3, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    _, aux, _ = gradient(method, forward, state, batch)
    assert_same(aux.method, state.method)

    def loss(alpha):
        own = state._replace(method=state.method._replace(params=alpha))
        return method.loss(forward, state.params, own, batch, None)[0]

    grads = quick_jit(jax.grad(loss))(state.method.params)
    assert not any(np.any(g) for g in jax.tree.leaves(grads))


def test_adapt_moves_alpha_by_its_own_rate():
    method = ds3l(C, threshold=0.2, ramp_steps=0, weight_learning_rate=0.01)
    forward, state, batch = setting(method, num_classes=C)
    own = quick_jit(lambda s, b: method.adapt(forward, s, b, None))(state, batch)
    moved = np.abs(own.params["kernel_2"] - state.method.params["kernel_2"])
    # Adam's first step has the length of the rate wherever there is a gradient.
    assert 0.005 < moved.max() < 0.0101


def test_weights_are_in_the_open_unit_interval():
    method = ds3l(C)
    own = method.init(jax.random.key(0), None, 32)
    prob = np.random.default_rng(0).dirichlet(np.ones(C), 50).astype(np.float32)
    weight = np.asarray(sample_weight(own.params, prob))
    assert weight.shape == (50,) and (weight > 0).all() and (weight < 1).all()
    assert np.std(weight) > 1e-3


def test_a_confidence_of_exactly_the_threshold_does_not_count():
    method = ds3l(2, threshold=0.5, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=2)
    flat = jax.tree.map(jnp.zeros_like, state.params)  # f = (1/2, 1/2) exactly
    _, aux = value(method, forward, state._replace(params=flat), batch)
    assert aux.metrics["confident"] == 0
