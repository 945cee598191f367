"""Refresh of the Υ-Model and its ablations: which images get which label."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import assert_close, assert_same, gradient, quick_jit, setting
from upsilon_jax import kernels
from upsilon_jax.methods import METHODS
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.strategies import open_set
from upsilon_jax.types import Predictions

C, K, N = 3, 4, 32


@functools.partial(quick_jit, static_argnums=0)
def _refresh(refresh, state, logits, where):
    return refresh(state, Predictions({"logits": logits}, {}), where, None)


def refreshed(method, logits, where=None):
    _, state, _ = setting(method, num_classes=C)
    where = np.ones(len(logits), bool) if where is None else where
    return _refresh(method.refresh, state, jnp.asarray(logits, jnp.float32), where)


def logits_for(classes, outputs=C, margin=6.0, seed=0):
    """Confident logits for the given classes, with a little noise."""
    noise = np.random.default_rng(seed).standard_normal((len(classes), outputs))
    return margin * np.eye(outputs)[classes] + 0.3 * noise


UNEVEN = np.array([0] * 17 + [1] * 10 + [2] * 5)
EVEN = np.arange(N) % C


def test_pl_takes_every_confident_image():
    logits = 3 * np.random.default_rng(0).standard_normal((N, C))
    f = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    got = refreshed(METHODS["pl"](C, threshold=0.8), logits)
    want = np.where(f.max(1) > 0.8, f.argmax(1), -1)
    assert 0 < (want >= 0).sum() < N
    np.testing.assert_array_equal(got.label, want)
    np.testing.assert_array_equal(got.weight, want >= 0)
    same = METHODS["upsilon"](C, rebalance=False, num_clusters=0, threshold=0.8)
    assert_same(got, refreshed(same, logits))


def test_rpl_is_pl_where_counts_are_already_even():
    logits = logits_for(EVEN[:30])
    rpl, pl = METHODS["rpl"](C), METHODS["pl"](C)
    assert_same(refreshed(rpl, logits), refreshed(pl, logits))
    uneven = logits_for(UNEVEN)
    counts = np.bincount(np.asarray(refreshed(rpl, uneven).label) + 1, minlength=C + 1)
    assert (counts[1:] == 5).all()


@pytest.mark.parametrize("name", ["pl", "rpl", "upsilon", "upsilon_k1", "sec"])
def test_a_threshold_of_one_leaves_the_baseline(name):
    method = METHODS[name](C, threshold=1.0, ood_threshold=0.0, pseudo_batches="masked")
    logits = logits_for(UNEVEN, method.heads["logits"].size)
    own = refreshed(method, logits)
    assert not np.any(own.weight) and (np.asarray(own.label) == -1).all()
    forward, state, batch = setting(method, num_classes=C)
    state = state._replace(method=own)
    _, _, grads = gradient(method, forward, state, batch)
    supervised = baseline(C)._replace(heads=method.heads)
    _, _, want = gradient(supervised, forward, state, batch)
    assert_close(grads, want)


def mixed_logits(seed=0):
    """Confident ID images first, then images whose mass is on the extra outputs."""
    rng = np.random.default_rng(seed)
    sure = logits_for(UNEVEN[:20], C + K, seed=seed)
    unsure = rng.standard_normal((N - 20, C + K)) + 4 * (np.arange(C + K) >= C)
    return np.concatenate([sure, unsure])


def selected(kernel, logits, threshold):
    run = quick_jit(lambda logits: kernel(logits, C, threshold=threshold))
    return jax.tree.map(np.asarray, run(jnp.asarray(logits, jnp.float32)))


def test_rpl_and_sec_are_disjoint_and_make_up_the_labels():
    method, logits = METHODS["upsilon"](C), mixed_logits()
    own = refreshed(method, logits)
    confident = selected(kernels.rebalance, logits, 0.95)
    explored = selected(kernels.explore, logits, 0.3)
    assert not np.any((confident.weight > 0) & (explored.weight > 0))
    np.testing.assert_array_equal(own.weight, confident.weight + explored.weight)
    for i in range(N):
        part = explored if explored.weight[i] > 0 else confident
        assert own.label[i] == part.label[i]
    assert np.any(explored.weight > 0) and np.asarray(own.label).max() >= C


def test_sec_keeps_all_confident_images():
    own = refreshed(METHODS["sec"](C), mixed_logits())
    confident = selected(kernels.pseudo_label, mixed_logits(), 0.95)
    chosen = np.asarray(confident.weight) > 0
    np.testing.assert_array_equal(
        np.asarray(own.label)[chosen], confident.label[chosen]
    )


def test_one_cluster_on_a_perfect_detector_is_open_set():
    # Confidence below γ exactly where the truth is OOD, above τ nowhere.
    hidden = np.where(np.arange(N) % 3 == 0, C, 1)
    logits = np.where((hidden >= C)[:, None], [[0, 0, 0, 9]], [[1.0, 2, 1, 0]])
    method = METHODS["upsilon_k1"](C, rebalance=False)
    own = refreshed(method, logits)
    assert_same(own, open_set(C).init(None, None, N, hidden))


@pytest.mark.parametrize("tau, gamma", [(0.95, 0.6), (0.8, 0.55)])
def test_scores_of_two_outputs_select_alike(tau, gamma):
    logits = np.random.default_rng(1).standard_normal((N, 2)) * 2
    entropy = lambda c: c * np.log(c) + (1 - c) * np.log(1 - c)
    maps = {
        "confidence": lambda c: c,
        "entropy": entropy,
        "margin": lambda c: 2 * c - 1,
    }
    results = [
        refreshed(
            METHODS["rpl"](2, score=score, threshold=to(tau), ood_threshold=to(gamma)),
            logits,
        )
        for score, to in maps.items()
    ]
    assert np.any(results[0].weight > 0)
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def test_thresholds_of_the_other_scores_are_those_of_the_confidences():
    t = 10
    ent, sd = METHODS["upsilon_ent"].keywords, METHODS["upsilon_sd"].keywords
    for c, field in ((0.95, "threshold"), (0.3, "ood_threshold")):
        h = c * np.log(c) + (1 - c) * np.log((1 - c) / (t - 1))
        assert ent[field] == pytest.approx(h, abs=5e-4)
    assert sd["threshold"] == pytest.approx(0.95 - 0.05)
    assert sd["ood_threshold"] == pytest.approx(0.3 - 0.7 / (t - 1), abs=5e-4)


def test_padding_is_never_selected():
    where = np.arange(N) < 25
    own = refreshed(METHODS["upsilon"](C), mixed_logits(), where)
    assert not np.any(np.asarray(own.weight)[25:])
    assert np.any(np.asarray(own.weight)[:25])


def explored_logits():
    """All images are below γ; clusters are of unequal size, some images undecided."""
    kind = np.where(np.arange(N) % 4 < 3, 0, 1 + np.arange(N) % 3)
    logits = np.zeros((N, C + K), np.float32)
    logits[:, C:] = np.linspace(0.2, 3, N)[:, None] * np.eye(K)[kind]
    return logits


@pytest.mark.parametrize("terms", [{"relaxation": 0.1}, {"mass": 0.4}])
def test_relaxation_and_mass_reach_the_assignment(terms):
    logits = explored_logits()
    got = refreshed(
        METHODS["upsilon"](C, num_clusters=K, ood_threshold=0.9, **terms), logits
    )
    want = kernels.explore(logits, C, threshold=0.9, **terms)
    usual = kernels.explore(logits, C, threshold=0.9)
    np.testing.assert_array_equal(got.label, want.label)
    assert_close(got.weight, want.weight)
    assert (np.asarray(want.label) != np.asarray(usual.label)).any()


def test_mass_rises_to_one_over_its_ramp():
    logits = jnp.asarray(explored_logits())
    method = METHODS["upsilon"](
        C,
        num_clusters=K,
        ood_threshold=0.9,
        mass=0.2,
        start_steps=10,
        mass_ramp_steps=40,
    )
    _, state, _ = setting(method, num_classes=C)
    selected = lambda step: float(
        _refresh(
            method.refresh,
            state._replace(step=jnp.int32(step)),
            logits,
            np.ones(N, bool),
        ).weight.sum()
    )
    start, middle, end = map(selected, (10, 40, 50))
    assert start < middle < end == pytest.approx(N, rel=1e-5)
    # ρ = 0.2 + 0.8 exp(-5) = 0.205; images that are assigned by less than half are out.
    assert start <= 0.3 * N
