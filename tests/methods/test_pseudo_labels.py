"""The loss of offline pseudo-labeling: what it averages over, and when it is zero."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import assert_close, gradient, predict, setting, value
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.pseudo_labels import pseudo_label_loss
from upsilon_jax.methods.selection import none_selected
from upsilon_jax.types import Head, PseudoLabels

C = 5


def method_with(**options):
    return Method(
        loss=pseudo_label_loss(C, **options),
        heads={"logits": Head(C)},
        init=none_selected,
        views=("strong",),
        labeled_views=("strong",),
    )


def with_labels(state, seed=0):
    """A third of 32 images selected, with uneven weights."""
    rng = np.random.default_rng(seed)
    weight = np.where(rng.random(32) < 0.4, rng.uniform(0.5, 2, 32), 0)
    label = np.where(weight > 0, rng.integers(0, C, 32), -1)
    own = PseudoLabels(jnp.asarray(label, jnp.int32), jnp.asarray(weight, jnp.float32))
    return state._replace(method=own)


@pytest.mark.parametrize("pseudo_batches", ["selected", "masked"])
@pytest.mark.parametrize("normalize", ["unlabeled", "selected"])
def test_the_table_of_averages(normalize, pseudo_batches):
    method = method_with(
        normalize=normalize, pseudo_batches=pseudo_batches, loss_weight=0.7
    )
    forward, state, batch = setting(method, num_classes=C)
    state = with_labels(state)
    chosen = np.flatnonzero(state.method.weight)
    if pseudo_batches == "selected":  # rows are drawn from P
        batch = batch._replace(index=jnp.asarray(chosen[np.arange(8) % len(chosen)]))
    total, aux = value(method, forward, state, batch)
    z = np.asarray(predict(forward, state, batch.views[0])["logits"], np.float64)
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    losses = []
    for row, i in enumerate(np.asarray(batch.index)):
        if state.method.weight[i] > 0:
            losses.append(-state.method.weight[i] * log_p[row, state.method.label[i]])
    assert 0 < len(losses)
    want = {
        ("unlabeled", "selected"): len(chosen) / 32 * np.mean(losses),
        ("unlabeled", "masked"): np.sum(losses) / 8,
        ("selected", "selected"): np.mean(losses),
        ("selected", "masked"): np.mean(losses),
    }[normalize, pseudo_batches]
    np.testing.assert_allclose(aux.metrics["unlabeled_loss"], want, rtol=1e-5)
    np.testing.assert_allclose(
        total, aux.metrics["labeled_loss"] + 0.7 * want, rtol=1e-5
    )


@pytest.mark.parametrize("normalize", ["unlabeled", "selected"])
def test_nothing_selected_is_the_baseline(normalize):
    method = method_with(normalize=normalize, pseudo_batches="masked")
    forward, state, batch = setting(method, num_classes=C)
    total, aux, grads = gradient(method, forward, state, batch)
    assert aux.metrics["unlabeled_loss"] == 0
    want_total, _, want = gradient(baseline(C), forward, state, batch)
    np.testing.assert_allclose(total, want_total, rtol=1e-6)
    assert_close(grads, want)


def test_the_ramp_counts_from_its_start():
    method = method_with(ramp_steps=100, start_steps=1000, normalize="selected")
    forward, state, batch = setting(method, num_classes=C, step=1050)
    total, aux = value(method, forward, with_labels(state), batch)
    extra = np.exp(-1.25) * aux.metrics["unlabeled_loss"]
    np.testing.assert_allclose(total, aux.metrics["labeled_loss"] + extra, rtol=1e-5)


def test_it_refuses_unknown_options():
    with pytest.raises(ValueError, match="normalize='mean'"):
        pseudo_label_loss(C, normalize="mean")
    with pytest.raises(ValueError, match="pseudo_batches='all'"):
        pseudo_label_loss(C, pseudo_batches="all")


def test_the_baseline_pushes_extra_outputs_down():
    # ∂L/∂b_k = mean f_k > 0 for outputs that are never a label.
    method = baseline(C)._replace(heads={"logits": Head(C + 3)})
    forward, state, batch = setting(method, num_classes=C)
    _, _, grads = gradient(method, forward, state, batch)
    assert (np.asarray(grads["logits_bias"])[C:] > 0).all()
    silent = state.params | {
        "logits_bias": state.params["logits_bias"].at[C:].set(-1e9)
    }
    total, _ = value(method, forward, state._replace(params=silent), batch)
    cut = silent | {
        "logits_bias": silent["logits_bias"][:C],
        "logits_kernel": silent["logits_kernel"][:, :C],
    }
    small = baseline(C)
    forward, *_ = setting(small, num_classes=C)
    want, _ = value(small, forward, state._replace(params=cut), batch)
    np.testing.assert_allclose(total, want, rtol=1e-6)
