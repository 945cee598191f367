"""γ that is estimated at each refresh, alone and in a composed method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import assert_same
from upsilon_jax.methods import METHODS, resolve
from upsilon_jax.methods.selection import estimate_foreign, usual_threshold
from upsilon_jax.types import Predictions, TrainState

C, K, N = 3, 2, 240


def predictions(share, seed=0):
    """Logits of D_u with a share of images on clusters, and of labeled images."""
    draw = np.random.default_rng(seed)
    label = np.arange(N) % C
    logits = draw.normal(0, 1, (N, C + K)).astype("f")
    foreign = np.arange(N) < share * N
    label[foreign] = C + np.arange(foreign.sum()) % K
    logits[np.arange(N), label] += 7
    known = draw.normal(0, 1, (30, C + K)).astype("f")
    known[np.arange(30), np.arange(30) % C] += 9
    outputs = {"logits": jnp.asarray(logits)}
    nothing = {"logits": jnp.zeros((0, C + K))}
    return Predictions(outputs, nothing, {"logits": jnp.asarray(known)})


def refreshed(method, outputs, state=None):
    state = state or method.init(jax.random.key(0), {}, N)
    whole = TrainState(0, {}, {}, (), ({}, {}), state)
    return method.refresh(whole, outputs, jnp.ones(N, bool), jax.random.key(0))


def test_gamma_follows_the_data():
    method = METHODS["upsilon"](C, num_clusters=K, ood_threshold="auto")
    assert np.isnan(method.foreign_below(method.init(None, {}, N)))
    explored = []
    for share in (0, 0.5, 1):
        outputs = predictions(share)
        state = refreshed(method, outputs)
        found = estimate_foreign(outputs, C, jnp.ones(N, bool))
        gamma = np.clip(usual_threshold(C), found.sure, found.most)
        assert method.foreign_below(state) == pytest.approx(min(gamma, 0.95))
        explored.append(int((method.selection(state).label >= C).sum()))
    assert explored[0] < 20 and 100 < explored[1] < 140 and explored[2] > 220


def test_an_estimated_gamma_selects_what_the_same_number_does():
    outputs = predictions(0.5)
    tuned = METHODS["upsilon"](C, num_clusters=K, ood_threshold="auto")
    state = refreshed(tuned, outputs)
    gamma = float(tuned.foreign_below(state))
    told = METHODS["upsilon"](C, num_clusters=K, ood_threshold=gamma)
    assert told.foreign_below(None) == gamma
    for a, b in zip(tuned.selection(state), refreshed(told, outputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_held_out_images_are_preferred_to_labeled_ones():
    outputs = predictions(0.5)
    both = outputs._replace(valid=predictions(0.5, seed=1).labeled)
    alone = both._replace(labeled=None)
    estimate = lambda part: estimate_foreign(part, C, jnp.ones(N, bool))
    assert_same(estimate(both), estimate(alone))
    assert estimate(both).share != estimate(outputs).share


def test_is_traced_once():
    method = METHODS["upsilon"](C, num_clusters=K, ood_threshold="auto")
    traces = []
    refresh = jax.jit(lambda *x: (traces.append(0), method.refresh(*x))[1])
    whole = TrainState(0, {}, {}, (), ({}, {}), method.init(None, {}, N))
    gammas = {
        float(refresh(whole, predictions(s), jnp.ones(N, bool), None).ood_threshold)
        for s in (0, 0.5, 1)
    }
    assert len(traces) == 1 and len(gammas) > 1


def test_a_composed_method_is_tuned_too():
    upsilon = {"num_clusters": K, "ood_threshold": "auto"}
    method = resolve("fixmatch+upsilon")(C, upsilon=upsilon)
    assert method.refresh_reads_labeled
    state = refreshed(method, predictions(0.5))
    assert 0 < method.foreign_below(state) < 0.95
    assert type(method.selection(state)).__name__ == "PseudoLabels"


def test_without_clusters_there_is_no_gamma():
    method = METHODS["rpl"](C, ood_threshold="auto")
    assert method.foreign_below(None) is None and not method.refresh_reads_labeled
    outputs = predictions(0.5)
    outputs = outputs._replace(unlabeled={"logits": outputs.unlabeled["logits"][:, :C]})
    assert (refreshed(method, outputs).label < C).all()


def test_other_scores_have_no_estimate():
    with pytest.raises(ValueError, match="needs score='confidence'"):
        METHODS["upsilon"](C, score="margin", ood_threshold="auto")
