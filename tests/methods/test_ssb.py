import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import (
    assert_close,
    gradient,
    quick_jit,
    setting,
    softmax,
    value,
)
from upsilon_jax.methods.fixmatch import fixmatch
from upsilon_jax.methods.ssb import ssb

C, B, M = 3, 8, 8
OFF = {
    "ova_weight": 0,
    "entropy_weight": 0,
    "consistency_weight": 0,
    "negative_weight": 0,
}


def by_hand(forward, state, batch, tau, tau_n):
    """Every term in float64, with loops where the definition has sums."""

    def seen(images):
        outputs, _ = forward(state.params, (), images, None, True)
        return [softmax(np.asarray(outputs[k], np.float64)) for k in ("logits", "open")]

    (f_l, o_l), (_, o_ls) = (seen(images) for images in batch.image)
    (f_s, o_s), (f_a, o_a), (_, o_b) = (seen(images) for images in batch.views)
    label, rows = np.asarray(batch.label), np.arange(B)
    others = [
        -np.log(o[i, 0, c]) if c != label[i] else 0.0
        for o in (o_l, o_ls)
        for i in range(B)
        for c in range(C)
    ]
    entropy = lambda o: -(o * np.log(o)).sum(1).mean(1)
    sure, guess = f_a.max(1) >= tau, f_a.argmax(1)
    foreign = o_a[:, 1] <= tau_n
    assert 0 < sure.sum() < M and 0 < foreign.sum() < M * C
    positive = -np.log(o_l[rows, 1, label])
    return {
        "labeled_loss": -np.log(f_l[rows, label]).mean(),
        "ova_loss": positive.mean() + np.mean(others),
        "entropy_loss": (entropy(o_a) + entropy(o_b)).mean() / 2,
        "consistency_loss": ((o_a - o_b) ** 2).sum((1, 2)).mean(),
        "unlabeled_loss": (sure * -np.log(f_s[rows, guess])).mean(),
        "negative_loss": (foreign * -np.log(o_s[:, 0])).sum(1).mean(),
    }


def test_every_term_by_hand():
    method = ssb(C, threshold=0.4, negative_threshold=0.5, start_steps=0, num_hidden=6)
    forward, state, batch = setting(method, num_classes=C)
    want = by_hand(forward, state, batch, 0.4, 0.5)
    total, aux = value(method, forward, state, batch)
    assert_close({name: aux.metrics[name] for name in want}, want, rtol=2e-5)
    scale = {"entropy_loss": 0.1, "consistency_loss": 0.5}
    parts = sum(scale.get(name, 1) * term for name, term in want.items())
    np.testing.assert_allclose(total, parts, rtol=1e-5)


def test_without_detectors_it_is_fixmatch_with_hidden_layers():
    method = ssb(C, threshold=0.4, num_hidden=6, **OFF)
    forward, state, batch = setting(method, num_classes=C)
    got, aux, grads = gradient(method, forward, state, batch)
    alone = fixmatch(C, threshold=0.4)
    want, fixed, want_grads = gradient(
        alone, forward, state, batch._replace(views=batch.views[:2])
    )
    assert 0 < fixed.metrics["confident"] < 1
    assert_close((got, grads), (want, want_grads))
    assert not np.any(grads["open_kernel"]) and not np.any(grads["open_hidden1"])


def slopes(method, step=0):
    """Of the loss by the pixels of the unlabeled views [V, M, ...]."""
    forward, state, batch = setting(method, num_classes=C, step=step)

    def loss(views):
        own = batch._replace(views=views)
        return method.loss(forward, state.params, state, own, None)[0]

    return np.asarray(quick_jit(jax.grad(loss))(batch.views))


@pytest.mark.parametrize(
    "on, moved",
    [
        ({"loss_weight": 1.0}, [True, False, False]),
        ({"negative_weight": 1.0, "loss_weight": 0}, [True, False, False]),
        ({"consistency_weight": 1.0, "loss_weight": 0}, [False, True, True]),
        ({"entropy_weight": 1.0, "loss_weight": 0}, [False, True, True]),
    ],
)
def test_which_views_have_a_gradient(on, moved):
    fields = {**OFF, "threshold": 0.0, "negative_threshold": 1.0, **on}
    got = slopes(ssb(C, num_hidden=6, start_steps=0, **fields))
    assert [bool(np.any(view)) for view in got] == moved


def test_pseudo_negatives_wait_for_their_start():
    fields = {"negative_threshold": 1.0, "start_steps": 10, "num_hidden": 6}
    method = ssb(C, **fields)
    forward, state, batch = setting(method, num_classes=C, step=9)
    assert value(method, forward, state, batch)[1].metrics["negative_loss"] == 0
    state = state._replace(step=jnp.int32(10))
    assert value(method, forward, state, batch)[1].metrics["negative_loss"] > 0
