"""What the step and the loop rely on, checked for every method."""

import functools
import inspect
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.methods.tiny import IMAGE, assert_same, network, quick_jit
from upsilon_jax import models
from upsilon_jax.inference.predict import make_predict
from upsilon_jax.methods import BASES, METHODS, resolve, split_name
from upsilon_jax.training.step import (
    Pixels,
    RawBatch,
    init_state,
    make_refresh,
    make_train_step,
)
from upsilon_jax.types import Predictions

C, OOD, B, M = 3, 2, 8, 16
NUM_UNLABELED, PADDED, NUM_VALID = 28, 32, 6
STEPS = 2  # between a refresh and the next
KEY = jax.random.key(7)
PIXELS = Pixels(mean=(0.5,) * 3, std=(0.25,) * 3, augmentation="weak")

# Values with which every term of a loss counts from the first step.
LIVE = {
    "ramp_steps": 0,
    "start_steps": 0,
    "threshold": 0.4,
    "ood_threshold": 0.35,
    "initial_threshold": 0.3,
    "num_ood_classes": OOD,
    "pseudo_batches": "masked",
}
LIVE_SCORE = {
    "upsilon_ent": {"threshold": -1.8, "ood_threshold": -1.85},
    "upsilon_sd": {"threshold": 0.1, "ood_threshold": 0.05},
}
# In a composed method, where networks are less sure over T = C + K outputs: every row
# is confident or gets a cluster.
LIVE_WRAPPER = {"threshold": 0.25, "ood_threshold": 0.25, "num_clusters": 2}
# The gradient is the optimizer's state, so that a step shows it.
SHOW_GRADIENT = optax.GradientTransformation(
    init=lambda params: jax.tree.map(jnp.zeros_like, params),
    update=lambda grads, state, params: (
        jax.tree.map(lambda g: -0.5 * g, grads),
        grads,
    ),
)

NETWORKS = ["tiny", pytest.param("wide_resnet", marks=pytest.mark.slow)]
# Of the composed ones the plainest, one that mixes rows, and one with its own refresh
# stand for the others, which are slow tests.
COMPOSED = [f"{base}+upsilon" for base in BASES if base != "pl"]
FAST = ("fixmatch+upsilon", "mixmatch+upsilon", "openmatch+upsilon")
MARKED = [
    pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow])
    for name in COMPOSED
]
every_method = pytest.mark.parametrize("name", [*METHODS, *MARKED])
every_network = pytest.mark.parametrize("net", NETWORKS)


def build(name):
    base, suffix = split_name(name)
    known = inspect.signature(METHODS[base]).parameters
    live = {k: v for k, v in LIVE.items() if k in known} | LIVE_SCORE.get(name, {})
    if suffix:
        return resolve(name)(C, upsilon=LIVE_WRAPPER, **live)
    return METHODS[name](C, **live)


def make_network(net, heads):
    if net == "tiny":
        return IMAGE, *network(heads, batch_norm=True)
    image = (8, 8, 3)
    module = models.build("wide_resnet", heads, depth=10, width=1, bn_decay=0.9)
    params, stats = models.initialize(module, image, seed=0)
    return image, models.forward_of(module), params, stats


def pixels_of(rng, num, image):
    return rng.integers(0, 256, (num, *image), np.uint8)


def raw_batch(image, seed=0):
    rng = np.random.default_rng(seed)
    return RawBatch(
        image=pixels_of(rng, B, image),
        label=rng.integers(0, C, B, np.int32),
        unlabeled=pixels_of(rng, M, image),
        index=rng.integers(0, NUM_UNLABELED, M, np.int32),
    )


def hidden_labels(method, seed=0):
    if method.reads_hidden_labels:
        return np.random.default_rng(seed).integers(0, C + OOD, NUM_UNLABELED)


class Run(NamedTuple):
    """A short run of a method: STEPS steps, a refresh, STEPS steps."""

    method: Any
    image: tuple
    forward: Any
    step: Any
    refresh: Any  # state -> state
    traces: dict
    start: Any  # after the first refresh; host arrays, as `middle` and `end`
    middle: Any
    end: Any
    metrics: list


def on_host(tree):
    return jax.tree.map(lambda x: np.array(x), tree)


def counted(fun, traces, name):
    """`fun`, counting how often it is traced."""

    @functools.wraps(fun)
    def counting(*args):
        traces[name] = traces.get(name, 0) + 1
        return fun(*args)

    return counting


@functools.cache
def run(name, net):
    method, traces, metrics = build(name), {}, []
    image, forward, params, stats = make_network(net, method.heads)
    own = method.init(jax.random.key(0), params, NUM_UNLABELED, hidden_labels(method))
    state = init_state(SHOW_GRADIENT, params, stats, own)
    train_step = make_train_step(method, forward, SHOW_GRADIENT, PIXELS, ema_decay=0.9)
    step = quick_jit(counted(train_step, traces, "step"))
    refresh = refresher(method, forward, image, traces)

    state = refresh(state)
    start = state
    for t in range(STEPS):
        state, values = step(state, raw_batch(image, t), KEY)
        metrics.append(values)
    middle = on_host(state)
    state = refresh(state)
    for t in range(STEPS):
        state, values = step(state, raw_batch(image, STEPS + t), KEY)
        metrics.append(values)
    return Run(
        method, image, forward, step, refresh, traces, start, middle, state, metrics
    )


def refresher(method, forward, image, traces):
    if method.refresh is None:
        return lambda state: state
    rng = np.random.default_rng(9)
    unlabeled, valid = pixels_of(rng, PADDED, image), pixels_of(rng, NUM_VALID, image)
    where = np.arange(PADDED) < NUM_UNLABELED
    predict = make_predict(forward, PIXELS.mean, PIXELS.std)

    def renewed(state):
        weights = state.ema if method.refresh_with == "ema" else state[1:3]
        outputs = Predictions(predict(*weights, unlabeled), predict(*weights, valid))
        return make_refresh(method)(state, outputs, where, KEY)

    compiled = quick_jit(counted(renewed, traces, "refresh"))
    return lambda state: state._replace(method=compiled(state))


def described(state):
    return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), state)


@every_network
@every_method
def test_it_traces_once_across_refreshes(name, net):
    traces = run(name, net).traces
    assert set(traces.values()) == {1}, traces


@every_network
@every_method
def test_structure_and_dtypes_of_the_state_are_stable(name, net):
    this = run(name, net)
    assert described(this.start) == described(this.end)
    flags = [x.weak_type for x in jax.tree.leaves(this.start)]
    assert not any(flags)


@every_network
@every_method
def test_everything_is_finite_and_moves(name, net):
    this = run(name, net)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((this.end, this.metrics)))
    assert int(this.end.step) == 2 * STEPS
    assert all("labeled_loss" in metrics for metrics in this.metrics)
    moved = jax.tree.map(
        lambda a, b: bool(np.any(np.asarray(a) != np.asarray(b))), this.start, this.end
    )
    assert all(jax.tree.leaves((moved.params, moved.stats)))
    if this.method.refresh is not None:
        assert any(jax.tree.leaves(moved.method))


@every_network
@every_method
def test_the_gradient_reaches_every_parameter(name, net):
    this = run(name, net)
    paths = jax.tree_util.tree_leaves_with_path(this.end.opt)
    zero = [jax.tree_util.keystr(path) for path, grad in paths if not np.any(grad)]
    assert not zero


@every_network
@every_method
def test_a_restart_in_the_middle_changes_no_bit(name, net):
    this = run(name, net)
    state = this.refresh(jax.device_put(this.middle))
    for t in range(STEPS):
        state, _ = this.step(state, raw_batch(this.image, STEPS + t), KEY)
    assert_same(state, this.end)


@pytest.mark.parametrize("name", MARKED)
def test_p_of_a_composed_method_has_both_parts(name):
    this = run(name, "tiny")
    pseudo = jax.tree.map(np.asarray, this.method.selection(this.start.method))
    chosen, explored = pseudo.weight > 0, pseudo.label >= C
    assert len(chosen) == NUM_UNLABELED and not chosen.all()
    assert (chosen & explored).any() and (chosen & ~explored).any()


@every_method
def test_hidden_labels_are_inert(name):
    method = build(name)
    _, _, params, _ = make_network("tiny", method.heads)
    states = [
        method.init(
            jax.random.key(0),
            params,
            NUM_UNLABELED,
            np.random.default_rng(seed).integers(0, C + OOD, NUM_UNLABELED),
        )
        for seed in range(2)
    ]
    same = jax.tree.map(lambda a, b: np.array_equal(a, b), *states)
    assert all(jax.tree.leaves(same)) != method.reads_hidden_labels


def test_only_the_strategies_read_hidden_labels():
    readers = {name for name in METHODS if build(name).reads_hidden_labels}
    assert readers == {"re_assigned", "open_set", "oracle"}


def test_pre_training_leaves_the_heads_it_does_not_use_alone():
    method = build("openmatch")
    image, forward, params, stats = make_network("tiny", method.heads)
    own = method.init(None, params, NUM_UNLABELED)
    step = make_train_step(
        method, forward, SHOW_GRADIENT, PIXELS, ema_decay=0.9, supervised=True
    )
    state = init_state(SHOW_GRADIENT, params, stats, own)
    state, _ = quick_jit(step)(state, raw_batch(image), KEY)
    assert not np.any(state.opt["open_kernel"]) and np.any(state.opt["logits_kernel"])
    assert_same(state.method, own)
