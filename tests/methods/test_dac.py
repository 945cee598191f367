from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from tests.methods.tiny import assert_close, gradient, quick_jit, setting, value
from upsilon_jax.kernels.disagreement import agreement, mutual_information, otsu
from upsilon_jax.methods.dac import Bank, dac, neighbor_loss, rescored
from upsilon_jax.methods.fixmatch import fixmatch

C, H, M, N = 3, 4, 8, 32
LIVE = {"threshold": 0.4, "num_heads": H, "start_steps": 0}
OFF = {"diversity_weight": 0, "neighbor_weight": 0}

softmax = partial(special.softmax, axis=-1)


def with_a_past(state):
    """Half of the images were visited."""
    rng = np.random.default_rng(4)
    seen = np.arange(N) % 2 == 0
    features = rng.standard_normal((N, 128))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    bank = Bank(
        agreement=seen * rng.uniform(0.7, 0.9, N),
        score=seen * rng.uniform(0.1, 0.9, N),
        features=seen[:, None] * features,
        target=seen[:, None] * rng.dirichlet(np.ones(C + 1), N),
    )
    bank = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), bank)
    return state._replace(method=bank)


def by_hand(forward, state, batch):
    """Terms and the new scores, in float64."""

    def seen(images):
        outputs, _ = forward(state.params, (), images, None, True)
        return [
            np.asarray(outputs[k], np.float64)
            for k in ("logits", "auxiliary", "projection")
        ]

    (z_s, g_s, h_s), (z_a, g_a, _) = (seen(view) for view in batch.views)
    z_l, g_l, _ = seen(batch.image[0])
    bank = jax.tree.map(lambda x: np.asarray(x, np.float64), state.method)
    label, rows, index = np.asarray(batch.label), np.arange(M), np.asarray(batch.index)
    d = bank.agreement.copy()
    d[index] = agreement(jnp.asarray(softmax(g_a)))
    low = d[d > 0].min()
    score = bank.score.copy()
    score[index] = 0.9 * score[index] + 0.1 * (d[index] - low) / (d.max() - low)
    s = score[index]
    weight = np.minimum((s / float(otsu(jnp.asarray(score, jnp.float32)))) ** 1.5, 1)
    assert 0 < (weight < 1).sum() < M
    target = np.column_stack([s[:, None] * softmax(z_a), 1 - s])
    h_s = h_s / np.linalg.norm(h_s, axis=1, keepdims=True)
    there = bank.target.any(1)
    relation = softmax(h_s @ bank.features[there].T / 0.1)
    sure = softmax(z_a).max(1) >= 0.4
    guess = -np.log(softmax(z_s)[rows, z_a.argmax(1)])
    each = [
        np.mean(
            (softmax(g_a[:, k]).max(1) >= 0.4)
            * -np.log(softmax(g_s[:, k])[rows, g_a[:, k].argmax(1)])
        )
        - np.mean(np.log(softmax(g_l[:, k])[np.arange(8), label]))
        for k in range(H)
    ]
    return {
        "labeled_loss": -np.log(softmax(z_l)[np.arange(8), label]).mean(),
        "auxiliary_loss": np.mean(each),
        "diversity_loss": float(mutual_information(jnp.asarray(softmax(g_a)))),
        "unlabeled_loss": (weight * sure * guess).mean(),
        "neighbor_loss": -(target * np.log(relation @ bank.target[there]))
        .sum(1)
        .mean(),
    }, (score, target)


def test_every_term_and_the_bank_by_hand():
    method = dac(C, **LIVE)
    forward, state, batch = setting(method, num_classes=C)
    state = with_a_past(state)
    want, (score, target) = by_hand(forward, state, batch)
    total, aux = value(method, forward, state, batch)
    assert_close({name: aux.metrics[name] for name in want}, want, rtol=2e-4)
    scale = {"diversity_loss": 0.5, "neighbor_loss": 1.5}
    parts = sum(scale.get(name, 1) * term for name, term in want.items())
    np.testing.assert_allclose(total, parts, rtol=1e-4)
    assert_close(aux.method.score, score, rtol=1e-4)
    assert_close(aux.method.target[batch.index], target, rtol=1e-4)
    length = np.linalg.norm(aux.method.features[batch.index], axis=1)
    np.testing.assert_allclose(length, 1, rtol=1e-5)
    others = np.setdiff1d(np.arange(N), batch.index)
    assert_close(aux.method.target[others], state.method.target[others], rtol=0)


def test_where_all_are_inliers_the_classifier_learns_as_in_fixmatch():
    """Equal scores: Otsu's threshold is the score itself, and every weight is 1."""
    method = dac(C, **LIVE, **OFF, decay=1.0)
    forward, state, batch = setting(method, num_classes=C)
    state = with_a_past(state)
    equal = state.method._replace(score=jnp.full(N, 0.5, jnp.float32))
    state = state._replace(method=equal)
    _, aux, grads = gradient(method, forward, state, batch)
    _, fixed, want = gradient(fixmatch(C, threshold=0.4), forward, state, batch)
    assert 0 < fixed.metrics["confident"] < 1
    np.testing.assert_allclose(aux.metrics["weight"], 1, rtol=1e-5)
    assert_close(
        aux.metrics["unlabeled_loss"], fixed.metrics["unlabeled_loss"], rtol=1e-5
    )
    # The auxiliary classifiers change nothing below them.
    for name in ("dense", "logits_kernel", "logits_bias"):
        assert_close(grads[name], want[name])
    assert np.any(grads["auxiliary_kernel"]) and not np.any(grads["projection_kernel"])


def test_weak_views_teach_and_only_diversity_has_a_gradient_there():
    method = dac(C, **LIVE)
    forward, state, batch = setting(method, num_classes=C)
    state = with_a_past(state)

    def loss(views):
        own = batch._replace(views=views)
        return method.loss(forward, state.params, state, own, None)[0]

    grads = quick_jit(jax.grad(loss))(batch.views)
    # That of the diversity ends at the detached features.
    assert np.any(grads[0]) and not np.any(grads[1])


def test_the_second_phase_waits_and_an_empty_bank_has_no_loss():
    method = dac(C, **LIVE | {"start_steps": 5})
    forward, state, batch = setting(method, num_classes=C, step=4)
    past = with_a_past(state)
    metrics = value(method, forward, past, batch)[1].metrics
    assert metrics["unlabeled_loss"] == 0 and metrics["neighbor_loss"] == 0
    later = past._replace(step=jnp.int32(5))
    metrics = value(method, forward, later, batch)[1].metrics
    assert metrics["unlabeled_loss"] > 0 and metrics["neighbor_loss"] > 0
    h, t = jnp.ones((2, 128)), jnp.ones((2, C + 1))
    loss, slope = jax.value_and_grad(neighbor_loss)(h, t, state.method, 0.1)
    assert loss == 0 and not np.any(slope)


def test_scores_of_a_batch_are_between_the_extremes_of_all_visited():
    bank = Bank(jnp.array([0.5, 0.0, 0.9, 0.0]), jnp.zeros(4), None, None)
    got = rescored(bank, jnp.array([1, 3]), jnp.array([0.7, 0.5]), 0.9)
    np.testing.assert_allclose(got.agreement, [0.5, 0.7, 0.9, 0.5])
    np.testing.assert_allclose(got.score, [0, 0.05, 0, 0], atol=1e-7)
