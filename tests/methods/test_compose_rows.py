"""What a base makes of `batch.pseudo`, row by row, against its definition in numpy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.test_compose import BASES, LIVE, C, K, live, with_a_past
from tests.methods.tiny import assert_same, quick_jit, setting, softmax
from upsilon_jax.kernels.adversarial import adversarial_direction
from upsilon_jax.methods.ds3l import sample_weight
from upsilon_jax.types import PseudoLabels

M = 8
CLUSTERS, CUT, KEPT = [0, 1], [2, 3, 4], [5, 6, 7]
PSEUDO = PseudoLabels(
    label=jnp.array([C, C + 1, -1, 0, 1, 1, 2, 0], jnp.int32),
    weight=jnp.array([1, 1, 0, 0, 0, 1, 1, 1], jnp.float32),
)
TAU = LIVE["threshold"]
# Without these values the loss cannot be written down, or is not per row.
OPTIONS = {"mixmatch": {"alpha": 0.0}, "ds3l": {"num_hidden": 6}}


def ce(z, label):
    return -np.log(softmax(z)[np.arange(len(z)), label])


def setup(name, **options):
    method = BASES[name](C, K, **live(name), **OPTIONS.get(name, {}), **options)
    forward, state, batch = setting(method, num_classes=C)
    own = with_a_past(name, state.method, 32)
    batch = batch._replace(pseudo=PSEUDO)
    return method, forward, state._replace(method=own), batch


@functools.partial(quick_jit, static_argnums=(0, 1))
def _value_and_slopes(loss, forward, state, batch, key):
    def of_views(views):
        own = batch._replace(views=views)
        return loss(forward, state.params, state, own, key)

    return jax.value_and_grad(of_views, has_aux=True)(batch.views)


def value_and_slopes(method, forward, state, batch):
    """(unlabeled loss, metrics, gradient by pixels [V, M, ...])."""
    key = jax.random.key(2)
    (_, aux), slopes = _value_and_slopes(method.loss, forward, state, batch, key)
    return float(aux.metrics["unlabeled_loss"]), aux.metrics, np.asarray(slopes)


class Seen:
    """Outputs of the network on the views of a batch, in float64."""

    def __init__(self, forward, state, batch):
        self.forward, self.state, self.batch = forward, state, batch

    def head(self, name, view):
        # Without BatchNorm rows do not see each other, so any pass will do.
        images = self.batch.views[view]
        outputs, _ = self.forward(self.state.params, (), images, None, True)
        return np.asarray(outputs[name], np.float64)

    def logits(self, view):
        return self.head("logits", view)

    def own(self):
        """The method's state of the batch's rows."""
        return jax.tree.map(lambda x: np.asarray(x)[self.batch.index], self.state[-1])


def confident(z):
    """(1[c ≥ τ], ŷ): ŷ among the C classes, c over all T outputs."""
    known = softmax(z)[:, :C]
    return known.max(1) > TAU, known.argmax(1)


def mean_over_rows(row_losses, z):
    """(1/M) (Σ over kept rows of their losses + Σ over S of the CE to the cluster)."""
    clusters = ce(z, np.maximum(PSEUDO.label, 0))[CLUSTERS]
    return (row_losses[KEPT].sum() + clusters.sum()) / M


def fixmatch(seen):
    sure, label = confident(seen.logits(1))
    assert 0 < sure[KEPT].sum()
    return mean_over_rows(sure * ce(seen.logits(0), label), seen.logits(0))


def softmatch(seen):
    """At its first step: p̄ is that of the batch, and d = 0.999."""
    known = softmax(seen.logits(1))[:, :C]
    u = known / known.mean(0)
    c = (known.sum(1, keepdims=True) * u / u.sum(1, keepdims=True)).max(1)
    mean = 0.999 / (C + K) + 0.001 * c.mean()
    variance = 0.999 + 0.001 * c.var(ddof=1)
    weight = np.exp(-(np.minimum(c - mean, 0) ** 2) * 4 / (2 * variance))
    return mean_over_rows(weight * ce(seen.logits(0), known.argmax(1)), seen.logits(0))


def freematch(seen):
    """At its first step: averages start at a guess, and d = 0.999."""
    known = softmax(seen.logits(1))[:, :C]
    label, c = known.argmax(1), known.max(1)
    tau = 0.999 / (C + K) + 0.001 * c.mean()
    share = 0.999 / (C + K) + 0.001 * known.mean(0)
    sure = c >= (tau * share / share.max())[label]
    assert 0 < sure[KEPT].sum()
    return mean_over_rows(sure * ce(seen.logits(0), label), seen.logits(0))


def consistency(seen):
    error = (softmax(seen.logits(0)) - softmax(seen.logits(1))) ** 2
    return mean_over_rows(error.mean(1), seen.logits(0))


def vat(seen):
    logits = lambda x: seen.forward(seen.state.params, (), x, None, True)[0]["logits"]
    x, key = seen.batch.views[0], jax.random.split(jax.random.key(2))[0]
    direction = adversarial_direction(logits, x, logits(x), key)
    p, q = (
        softmax(np.asarray(logits(images), np.float64))
        for images in (x, x + 6.0 * direction)
    )
    return mean_over_rows((p * np.log(p / q)).sum(1), seen.logits(0))


def mixmatch(seen):
    p = [softmax(seen.logits(view)) for view in range(2)]
    q = np.mean(p, axis=0) ** 2
    q /= q.sum(1, keepdims=True)
    error = np.mean([((one - q) ** 2).mean(1) for one in p], axis=0)
    return mean_over_rows(error, seen.logits(0))


def pl(seen):
    label, weight = seen.own()
    assert 0 < weight[KEPT].sum() < len(KEPT)
    own = weight * ce(seen.logits(0), np.maximum(label, 0))
    return mean_over_rows(own, seen.logits(0))


def uasd(seen):
    z, bank = seen.logits(0), np.asarray(seen.state.method.total, np.float64)
    past = bank[seen.batch.index]
    q = past / past.sum(1, keepdims=True)
    keep = (q[:, :C].max(1) >= LIVE["initial_threshold"])[KEPT]
    assert keep.any()
    own = -(q * np.log(softmax(z))).sum(1)[KEPT][keep]
    clusters = ce(z, np.maximum(PSEUDO.label, 0))[CLUSTERS]
    return (own.sum() + clusters.sum()) / (len(own) + len(clusters))


def openmatch(seen):
    sure, label = confident(seen.logits(1))
    inlier = seen.own()[KEPT]
    assert 0 < inlier.sum() < len(KEPT)
    own = (sure * ce(seen.logits(0), label))[KEPT]
    nothing = np.zeros(M)
    fix = (inlier * own).sum() / inlier.sum()
    return fix + mean_over_rows(nothing, seen.logits(0))


def ds3l(seen):
    z = seen.logits(0)
    sure, label = confident(z)
    weight = sample_weight(seen.state.method.params, softmax(z).astype(np.float32))
    weight = np.asarray(weight, np.float64)[KEPT]
    own = (sure * ce(z, label))[KEPT]
    return (weight * own).sum() / weight.sum() + mean_over_rows(np.zeros(M), z)


DEFINITIONS = {
    "pl": pl,
    "pi_model": consistency,
    "mean_teacher": consistency,
    "vat": vat,
    "mixmatch": mixmatch,
    "fixmatch": fixmatch,
    "uasd": uasd,
    "ds3l": ds3l,
    "openmatch": openmatch,
    "softmatch": softmatch,
    "freematch": freematch,
}


@pytest.mark.parametrize("name", BASES)
def test_the_loss_is_that_of_its_definition_and_cut_rows_have_no_part_in_it(name):
    method, forward, state, batch = setup(name)
    got, metrics, slopes = value_and_slopes(method, forward, state, batch)
    seen = Seen(forward, state, batch)
    np.testing.assert_allclose(got, DEFINITIONS[name](seen), rtol=2e-4)
    assert not np.any(slopes[:, CUT])
    assert np.any(slopes[0, CLUSTERS], axis=(1, 2, 3)).all()
    assert np.any(slopes[:, KEPT])
    if name == "openmatch":
        check_detector_terms(seen, metrics)


def check_detector_terms(seen, metrics):
    p = [softmax_of_detectors(seen.head("open", view)) for view in range(2)]
    entropy = [-(one * np.log(one)).sum(1).mean(1)[KEPT].sum() for one in p]
    np.testing.assert_allclose(metrics["entropy_loss"], sum(entropy) / 16, rtol=1e-4)
    error = ((p[0] - p[1]) ** 2).sum((1, 2))[KEPT].sum()
    np.testing.assert_allclose(metrics["consistency_loss"], error / 8, rtol=1e-4)


def softmax_of_detectors(o):
    return np.stack([softmax(o[:, :, j]) for j in range(o.shape[2])], axis=2)


@pytest.mark.parametrize(
    "name", ["fixmatch", "uasd", "openmatch", "mixmatch", "softmatch", "freematch"]
)
def test_a_row_with_a_cluster_has_no_other_loss(name):
    """Its second view takes part in nothing."""
    method, forward, state, batch = setup(name)
    _, _, slopes = value_and_slopes(method, forward, state, batch)
    assert not np.any(slopes[1:, CLUSTERS])


@pytest.mark.parametrize("name", ["pi_model", "mean_teacher", "vat", "mixmatch"])
def test_the_weight_of_squared_errors_and_divergences_is_not_for_clusters(name):
    method = BASES[name](C, K, loss_weight=0.0, **OPTIONS.get(name, {}))
    _, forward, state, batch = setup(name)
    loss = functools.partial(method.loss, forward)
    total, aux = quick_jit(loss)(state.params, state, batch, jax.random.key(2))
    clusters = mean_over_rows(np.zeros(M), Seen(forward, state, batch).logits(0))
    assert total - aux.metrics["labeled_loss"] == pytest.approx(clusters, rel=1e-4)


def test_partners_of_mixmatch_are_labeled_or_in_p():
    method = BASES["mixmatch"](C, K, ramp_steps=0)
    _, forward, state, batch = setup("mixmatch")
    _, _, slopes = value_and_slopes(method, forward, state, batch)
    assert not np.any(slopes[:, CUT])
    assert np.any(slopes[:, KEPT], axis=(2, 3, 4)).all()


def test_a_partner_with_a_cluster_brings_that_cluster_as_its_target():
    method = BASES["mixmatch"](C, K, loss_weight=0.0)
    _, forward, state, batch = setup("mixmatch")
    swapped = PSEUDO._replace(label=jnp.where(PSEUDO.label == C, C + 1, PSEUDO.label))
    (_, before, slopes), (_, after, _) = (
        value_and_slopes(method, forward, state, batch._replace(pseudo=pseudo))
        for pseudo in (PSEUDO, swapped)
    )
    assert np.any(slopes[:, 0]), "row 0 is the partner of a labeled row"
    assert before["labeled_loss"] != after["labeled_loss"]


def test_ds3l_learns_its_weights_from_kept_rows_only():
    method, forward, state, batch = setup("ds3l")
    adapt = quick_jit(lambda batch: method.adapt(forward, state, batch, None))
    got = adapt(batch)
    no_clusters = PSEUDO._replace(weight=jnp.where(PSEUDO.label >= C, 0, PSEUDO.weight))
    assert_same(got, adapt(batch._replace(pseudo=no_clusters)))
    moved = batch.views.at[:, jnp.array(CUT + CLUSTERS)].add(1.0)
    assert_same(got, adapt(batch._replace(views=moved)))
    alone = adapt(batch._replace(pseudo=PSEUDO._replace(weight=jnp.ones(M))))
    assert np.any(alone.params["kernel_1"] != got.params["kernel_1"])


def test_the_teacher_moves_whatever_the_weights():
    method, forward, state, batch = setup("mean_teacher")
    state = state._replace(params=jax.tree.map(lambda x: x + 1, state.params))
    nothing = batch._replace(pseudo=PSEUDO._replace(weight=jnp.zeros(M)))
    own = method.adapt(forward, state, nothing, None)
    assert_same(own.params, state.params)  # the first update is a plain mean


def test_the_bank_and_the_threshold_of_uasd():
    method, forward, state, batch = setup("uasd")
    aux = method.loss(forward, state.params, state, batch, None)[1]
    grown = np.asarray(aux.method.total - state.method.total)[batch.index]
    assert grown.shape == (M, C + K)
    np.testing.assert_allclose(grown.sum(1), 1, rtol=1e-5)  # cut rows too
    z = jnp.asarray(np.random.default_rng(0).standard_normal((6, C + K)), jnp.float32)
    outputs = type("Outputs", (), {"valid": {"logits": z}})
    got = method.refresh(state, outputs, None, None).threshold
    want = softmax(np.asarray(z, np.float64))[:, :C].max(1).mean()
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_openmatch_asks_the_detector_of_the_best_id_class():
    method, forward, state, _ = setup("openmatch")
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((32, C + K)) + 3 * (np.arange(C + K) >= C)
    opened = rng.standard_normal((32, 2, C))
    heads = {"logits": jnp.asarray(logits), "open": jnp.asarray(opened)}
    outputs = type("Outputs", (), {"unlabeled": heads})
    inlier = method.refresh(state, outputs, jnp.ones(32, bool), None)
    best = logits[:, :C].argmax(1)
    rows = np.arange(32)
    want = opened[rows, 1, best] > opened[rows, 0, best]
    np.testing.assert_array_equal(inlier, want)
