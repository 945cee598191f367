"""RPL and SEC around another method: names, what P does, and known equivalences."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import (
    assert_close,
    assert_same,
    gradient,
    quick_jit,
    setting,
)
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import BASES, METHODS, SUFFIXES, compose, resolve, split_name
from upsilon_jax.methods.base import Method
from upsilon_jax.types import Aux, Head, Predictions, PseudoLabels

C, K, N = 3, 2, 32
# Values with which every term of a loss counts from the first step.
LIVE = {
    "ramp_steps": 0,
    "start_steps": 0,
    "threshold": 0.15,
    "initial_threshold": 0.2,
}


def live(name):
    known = inspect.signature(BASES[name]).parameters
    return {k: v for k, v in LIVE.items() if k in known}


def composed(name, **upsilon):
    return resolve(name)(C, upsilon=upsilon, **live(name.partition("+")[0]))


# ---- names


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("base", BASES)
def test_every_base_takes_every_suffix(base, suffix):
    assert split_name(f"{base}+{suffix}") == (base, suffix)
    method = resolve(f"{base}+{suffix}")(C)
    assert method.heads["logits"].size == C + (0 if suffix == "rpl" else 4)
    alone = METHODS[base](C)
    assert (method.views, method.labeled_views) == (alone.views, alone.labeled_views)
    assert (method.refresh_with, method.refresh_epochs) == (
        alone.refresh_with,
        alone.refresh_epochs,
    )


def test_a_plain_name_is_the_plain_method():
    assert split_name("fixmatch") == ("fixmatch", None)
    assert all(resolve(name) is factory for name, factory in METHODS.items())


@pytest.mark.parametrize(
    "name, words",
    [
        ("baseline+upsilon", "baseline.*no unlabeled.*fixmatch"),
        ("orca+sec", "orca.*clusters already.*not per row"),
        ("upsilon+rpl", "'upsilon'.*RPL or SEC already"),
        ("sec+rpl", "'sec'.*RPL or SEC already"),
        ("upsilon_k1+sec", "'upsilon_k1'.*already"),
        ("pl_reweight+rpl", "balance the classes already"),
        ("oracle+sec", "oracle.*known"),
        ("fixmtch+sec", "'fixmtch' cannot be composed: these can: pl, pi_model"),
        ("fixmatch+", "may be rpl, sec, upsilon"),
        ("fixmatch+pl", "may be rpl, sec, upsilon"),
        ("fixmatch+rpl+sec", "may be rpl, sec, upsilon"),
        ("fixmtch", "fixmtch.*did you mean fixmatch"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name, words):
    with pytest.raises(ConfigError, match=words) as error:
        resolve(name)
    assert "\n" not in str(error.value)


def test_every_other_method_says_why_it_is_no_base():
    for name in METHODS.keys() - BASES.keys():
        with pytest.raises(ConfigError, match="cannot be composed: it"):
            split_name(f"{name}+upsilon")


def test_the_defaults_of_both_parts_stand_in_their_signatures():
    defaults = lambda f: {
        name: p.default
        for name, p in inspect.signature(f).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    ours, upsilon = defaults(compose), defaults(METHODS["upsilon"])
    assert ours == {name: upsilon[name] for name in ours}
    assert defaults(SUFFIXES["rpl"])["num_clusters"] == 0
    assert defaults(SUFFIXES["sec"])["rebalance"] is False
    for name, base in BASES.items():
        assert "num_clusters" not in defaults(base), name  # the wrapper's business


# ---- what the wrapper tells its base


def seen_by_base(**options):
    """What P of the whole D_u becomes in the batch that the base sees."""

    def loss(forward, params, state, batch, key):
        assert state.method == ()
        return jnp.zeros(()), Aux((), (), {"pseudo": batch.pseudo})

    base = lambda c, k: Method(loss=loss, heads={"logits": Head(c + k)})
    method = compose(base, C, num_clusters=K, **options)
    label = jnp.array([0, 1, C, -1, 2, C + 1], jnp.int32)
    weight = jnp.array([1, 0, 1, 0, 1, 1], jnp.float32)
    forward, state, batch = setting(method, num_classes=C, unlabeled=4)
    pseudo = PseudoLabels(label, weight)
    state = state._replace(method=state.method._replace(pseudo=pseudo))
    batch = batch._replace(index=jnp.array([5, 3, 1, 0], jnp.int32))
    _, aux = method.loss(forward, state.params, state, batch, None)
    assert_same(aux.method, state.method)
    assert_same(method.selection(state.method), pseudo)
    return aux.metrics["pseudo"]


def test_with_rpl_a_row_outside_p_has_no_weight():
    got = seen_by_base(rebalance=True)
    np.testing.assert_array_equal(got.label, [C + 1, -1, 1, 0])
    np.testing.assert_array_equal(got.weight, [1, 0, 0, 1])


def test_without_rpl_every_row_has_weight_one():
    got = seen_by_base(rebalance=False)
    np.testing.assert_array_equal(got.label, [C + 1, -1, 1, 0])
    np.testing.assert_array_equal(got.weight, [1, 1, 1, 1])


def predictions(seed, outputs, num=N):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(2 * rng.standard_normal(shape), jnp.float32)
    heads = lambda n: {"logits": draw(n, outputs), "open": draw(n, 2, C)}
    return Predictions(heads(num), heads(6))


@functools.partial(quick_jit, static_argnums=0)
def _refresh(refresh, state, outputs, where):
    return refresh(state, outputs, where, None)


@pytest.mark.parametrize("base", ["fixmatch", "openmatch"])
def test_a_refresh_makes_the_p_of_upsilon_and_renews_the_base(base):
    rules = {"threshold": 0.5, "ood_threshold": 0.3, "num_clusters": K}
    method = composed(f"{base}+upsilon", **rules)
    outputs, where = predictions(0, C + K), np.arange(N) < N - 2
    _, state, _ = setting(method, num_classes=C)
    got = _refresh(method.refresh, state, outputs, where)
    want = _refresh(METHODS["upsilon"](C, **rules).refresh, state, outputs, where)
    assert np.any(want.label >= C) and np.any((want.weight > 0) & (want.label < C))
    assert_same(got.pseudo, want)
    alone = BASES[base](C, K, **live(base))
    own = state._replace(method=state.method.base)
    renewed = _refresh(alone.refresh, own, outputs, where) if alone.refresh else ()
    assert_same(got.base, renewed)


# ---- known limits


@functools.partial(quick_jit, static_argnums=(0, 1))
def _adapted(adapt, forward, state, batch, key):
    return adapt(forward, state, batch, key)


def outcome(method, forward, state, batch):
    """Loss, gradient, the method's state and its metrics after `adapt`."""
    own = _adapted(method.adapt, forward, state, batch, jax.random.key(3))
    loss, aux, grads = gradient(method, forward, state._replace(method=own), batch)
    return loss, grads, aux.method, aux.stats, dict(aux.metrics)


def with_a_past(name, state, of):
    """A state in which the base has something to work on."""
    if name == "openmatch":
        return jnp.asarray(np.arange(of) % 3 > 0, jnp.float32)
    if name == "uasd":
        past = np.random.default_rng(5).dirichlet(np.ones(state.total.shape[1]), of)
        return state._replace(total=jnp.asarray(3 * past, jnp.float32))
    if name == "pl":
        label = np.where(np.arange(of) % 4 > 0, np.arange(of) % C, -1).astype(np.int32)
        return PseudoLabels(jnp.asarray(label), jnp.asarray(label >= 0, jnp.float32))
    return state


@pytest.mark.parametrize("name", BASES)
def test_a_p_that_keeps_all_rows_and_has_no_cluster_is_the_base_alone(name):
    alone = BASES[name](C, K, **live(name))
    forward, state, batch = setting(alone, num_classes=C, batch_norm=True)
    own = with_a_past(name, state.method, N)
    method = composed(f"{name}+upsilon", num_clusters=K)
    everything = PseudoLabels(jnp.zeros(N, jnp.int32), jnp.ones(N, jnp.float32))
    start = method.init(jax.random.key(1), state.params, N)
    start = start._replace(base=own, pseudo=everything)
    want = outcome(alone, forward, state._replace(method=own), batch)
    got = outcome(method, forward, state._replace(method=start), batch)
    assert float(want[-1]["unlabeled_loss"]) > 0
    assert_same(got[2].pseudo, everything)
    assert_close((got[0], got[1], got[2].base, *got[3:]), want)


@pytest.mark.parametrize("suffix, kept", [("rpl", 0), ("sec", 1), ("upsilon", 0)])
def test_an_empty_p(suffix, kept):
    """Nothing is kept under RPL; SEC alone leaves the base as it is."""
    method = composed(f"fixmatch+{suffix}")
    forward, state, batch = setting(method, num_classes=C)
    assert not np.any(method.selection(state.method).weight)
    _, aux, _ = gradient(method, forward, state, batch)
    alone = BASES["fixmatch"](C, method.heads["logits"].size - C, **live("fixmatch"))
    own = state._replace(method=())
    _, want, _ = gradient(alone, forward, own, batch)
    assert want.metrics["unlabeled_loss"] > 0
    np.testing.assert_allclose(
        aux.metrics["unlabeled_loss"], kept * want.metrics["unlabeled_loss"], rtol=1e-6
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("normalize", ["unlabeled", "selected"])
def test_around_vanilla_pl_it_is_the_method_of_that_name(suffix, normalize):
    """pl+upsilon = upsilon, pl+rpl = rpl, pl+sec = sec, where batches are masked."""
    loss = {"normalize": normalize, "loss_weight": 0.7}
    rules = {"threshold": 0.5, "ood_threshold": 0.3}
    method = resolve(f"pl+{suffix}")(C, threshold=0.5, upsilon=rules, **loss)
    plain = METHODS[suffix](C, pseudo_batches="masked", **rules, **loss)
    assert method.heads == plain.heads and plain.trains_on_selection
    forward, state, batch = setting(plain, num_classes=C, batch_norm=True)
    ours = state._replace(method=method.init(None, state.params, N))
    where = np.ones(N, bool)
    for seed in range(2):  # a refresh, then a step of gradient descent
        outputs = predictions(seed, plain.heads["logits"].size)
        state = state._replace(method=_refresh(plain.refresh, state, outputs, where))
        ours = ours._replace(method=_refresh(method.refresh, ours, outputs, where))
        assert np.any(state.method.weight) and not np.all(state.method.weight)
        assert_same(method.selection(ours.method), state.method)
        value, aux, grads = gradient(plain, forward, state, batch)
        got_value, got_aux, got_grads = gradient(method, forward, ours, batch)
        assert aux.metrics["unlabeled_loss"] > 0
        assert_same(
            (got_value, got_grads, dict(got_aux.metrics), got_aux.stats),
            (value, grads, dict(aux.metrics), aux.stats),
        )
        moved = jax.tree.map(lambda p, g: p - 0.5 * g, state.params, grads)
        state = state._replace(params=moved, stats=aux.stats)
        ours = ours._replace(params=moved, stats=aux.stats)


def test_only_plain_pseudo_labels_may_be_drawn_from_p_alone():
    ood = {"num_ood_classes": 2}
    built = {
        name: factory(C, **(ood if name in ("orca", "oracle", "re_assigned") else {}))
        for name, factory in METHODS.items()
    }
    drawn = {name for name, method in built.items() if method.trains_on_selection}
    family = "pl rpl sec upsilon upsilon_k1 upsilon_ent upsilon_sd pl_reweight"
    assert drawn == {*family.split(), "re_assigned", "open_set", "oracle"}
    state = PseudoLabels(jnp.zeros(N, jnp.int32), jnp.ones(N, jnp.float32))
    for name, method in built.items():
        assert (method.selection(state) is state) == (name in drawn)
        assert name in drawn or method.selection(()) is None
    assert not composed("pl+upsilon").trains_on_selection
