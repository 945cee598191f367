"""The train step, apart from any particular network or data set."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from upsilon_jax import models
from upsilon_jax.inference.predict import make_predict
from upsilon_jax.methods import METHODS
from upsilon_jax.runtime import sharding
from upsilon_jax.training.programs import make_programs
from upsilon_jax.training.step import (
    Pixels,
    RawBatch,
    init_state,
    make_optimizer,
    make_refresh,
    make_train_step,
)
from upsilon_jax.types import Predictions

PIXELS = Pixels(mean=(0.5,), std=(0.25,), augmentation="paper", flip=False)
NUM_UNLABELED = 24


def linear(params, stats, images, key, train):
    """z = x W: the step's arithmetic needs no deeper network."""
    return {"logits": images.reshape(len(images), -1) @ params["w"]}, stats


def setup(name="upsilon", **hyperparameters):
    method = METHODS[name](3, **hyperparameters)
    rng = np.random.default_rng(0)
    size = (64, method.heads["logits"].size)
    params = {"w": jnp.asarray(0.1 * rng.normal(size=size), jnp.float32)}
    optimizer = make_optimizer(1e-2, "constant", 100)
    return method, linear, optimizer, start(method, optimizer, params, {})


def setup_wide_resnet(name="upsilon", dtype="float32"):
    method = METHODS[name](3)
    module = models.build(
        "wide_resnet", method.heads, depth=10, width=1, bn_decay=0.9, dtype=dtype
    )
    params, stats = models.initialize(module, (8, 8, 1), seed=0)
    optimizer = make_optimizer(1e-2, "constant", 100)
    return (
        method,
        models.forward_of(module),
        optimizer,
        start(method, optimizer, params, stats),
    )


def start(method, optimizer, params, stats):
    method_state = method.init(jax.random.key(0), params, NUM_UNLABELED)
    return init_state(optimizer, params, stats, method_state)


def batch(num_labeled=8, num_unlabeled=8, seed=0):
    rng = np.random.default_rng(seed)
    images = lambda n: rng.integers(256, size=(n, 8, 8, 1), dtype=np.uint8)
    return RawBatch(
        image=images(num_labeled),
        label=rng.integers(3, size=num_labeled).astype(np.int32),
        unlabeled=images(num_unlabeled),
        index=rng.integers(NUM_UNLABELED, size=num_unlabeled).astype(np.int32),
    )


def with_labels(state, label, weight):
    method = state.method._replace(
        label=jnp.asarray(label, jnp.int32), weight=jnp.asarray(weight, jnp.float32)
    )
    return state._replace(method=method)


def assert_trees_equal(left, right):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)


def test_after_one_step_the_ema_is_the_live_model():
    method, forward, optimizer, state = setup()
    step = jax.jit(
        make_train_step(
            method, forward, optimizer, PIXELS, ema_decay=0.999, supervised=True
        )
    )
    state, metrics = step(state, batch(num_unlabeled=0), jax.random.key(0))
    assert_trees_equal(state.ema, (state.params, state.stats))
    assert np.isfinite(metrics["loss"]) and state.step == 1


def test_the_step_is_adam_on_the_gradient_of_the_loss():
    """One step against optax applied by hand to an independent gradient."""
    method, forward, optimizer, state = setup("baseline")
    pixels = PIXELS._replace(augmentation="none")
    step = make_train_step(method, forward, optimizer, pixels, ema_decay=0.9)
    raw = batch(num_unlabeled=0)
    images = (raw.image / np.float32(255) - 0.5) / 0.25

    def loss(params):
        outputs, _ = forward(params, state.stats, jnp.asarray(images), None, True)
        log_probs = jax.nn.log_softmax(outputs["logits"])
        return -jnp.mean(log_probs[jnp.arange(8), raw.label])

    value, grads = jax.value_and_grad(loss)(state.params)
    updates, _ = optax.adam(1e-2).update(grads, optax.adam(1e-2).init(state.params))
    expected = optax.apply_updates(state.params, updates)
    new, metrics = step(state, raw, jax.random.key(0))
    assert metrics["loss"] == pytest.approx(float(value), rel=1e-5)
    np.testing.assert_allclose(new.params["w"], expected["w"], rtol=1e-4, atol=1e-6)


def gradients(method, forward, state, raw):
    """Difference of parameters after one plain SGD step of rate 1."""
    sgd = optax.sgd(1.0)
    plain = PIXELS._replace(augmentation="none")
    step = make_train_step(method, forward, sgd, plain, ema_decay=0.9)
    state = state._replace(opt=sgd.init(state.params))
    new, metrics = jax.jit(step)(state, raw, jax.random.key(1))
    moved = jax.tree.map(lambda a, b: np.asarray(a - b), state.params, new.params)
    return moved, float(metrics["loss"])


def test_selected_batches_have_the_objective_of_masked_ones():
    """All of D_u in one batch: masked Σ w CE / M equals s · mean over P, exactly."""
    chosen = np.arange(0, NUM_UNLABELED, 3)
    weight = np.isin(np.arange(NUM_UNLABELED), chosen).astype(np.float32)
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(NUM_UNLABELED, 8, 8, 1), dtype=np.uint8)
    results = []
    for pseudo_batches, index in (
        ("masked", np.arange(NUM_UNLABELED)),
        ("selected", chosen),
    ):
        method, forward, _, state = setup(num_clusters=0, pseudo_batches=pseudo_batches)
        state = with_labels(state, np.where(weight > 0, 1, -1), weight)
        raw = batch()._replace(unlabeled=pixels[index], index=index.astype(np.int32))
        results.append(gradients(method, forward, state, raw))
    (masked, masked_loss), (selected, selected_loss) = results
    # float32 sums of 24 and of 8 rows, in different orders
    np.testing.assert_allclose(masked["w"], selected["w"], rtol=1e-4, atol=1e-6)
    assert masked_loss == pytest.approx(selected_loss, rel=1e-5)


def test_unselected_rows_carry_no_gradient_in_masked_batches():
    method, forward, _, state = setup(num_clusters=0, pseudo_batches="masked")
    nothing = with_labels(state, np.full(NUM_UNLABELED, -1), np.zeros(NUM_UNLABELED))
    changed = with_labels(state, np.ones(NUM_UNLABELED), np.zeros(NUM_UNLABELED))
    left, _ = gradients(method, forward, nothing, batch())
    right, _ = gradients(method, forward, changed, batch())
    assert_trees_equal(left, right)


def test_normalize_selected_averages_over_the_selected_rows():
    method, forward, _, state = setup(
        num_clusters=0, pseudo_batches="masked", normalize="selected"
    )
    raw = batch()._replace(index=np.arange(8, dtype=np.int32))
    weight = np.zeros(NUM_UNLABELED)
    weight[:2] = 1
    state = with_labels(state, np.zeros(NUM_UNLABELED), weight)
    twice = METHODS["upsilon"](3, num_clusters=0, pseudo_batches="masked")
    _, selected = gradients(method, forward, state, raw)
    _, unlabeled = gradients(twice, forward, state, raw)
    supervised = gradients(
        METHODS["upsilon"](3, num_clusters=0, pseudo_batches="masked", loss_weight=0.0),
        forward,
        state,
        raw,
    )[1]
    # 2 of 8 rows: the mean over the selected is four times the sum over 8
    expected = supervised + 4 * (unlabeled - supervised)
    assert selected == pytest.approx(expected, rel=1e-5)


def test_the_learning_rate_falls_to_a_fifth_at_four_fifths():
    optimizer = make_optimizer(1.0, "step", total_steps=10)
    state, sizes = optimizer.init(jnp.zeros(())), []
    for _ in range(10):
        update, state = optimizer.update(jnp.ones(()), state)
        sizes.append(-float(update))  # Adam's step on a constant gradient is the rate
    # float32 bias corrections 1 - β^t leave 1e-5
    np.testing.assert_allclose(sizes, [1.0] * 8 + [0.2] * 2, rtol=1e-4)


def test_sgd_is_nesterovs_with_decay_of_matrices_and_a_cosine():
    """v ← 0.9 v + g, w ← w - η_t (g + 0.9 v), with g = gradient + λ w."""
    rate, decay, steps = 0.3, 0.05, 8
    optimizer = make_optimizer(rate, "cosine", steps, name="sgd", weight_decay=decay)
    rng = np.random.default_rng(0)
    draw = lambda: {"kernel": rng.normal(size=(2, 3)), "bias": rng.normal(size=3)}
    expected, gradients = draw(), [draw() for _ in range(steps)]
    params = jax.tree.map(jnp.float32, expected)
    state = optimizer.init(params)
    velocity = jax.tree.map(np.zeros_like, expected)
    for step, gradient in enumerate(gradients):
        updates, state = optimizer.update(
            jax.tree.map(jnp.float32, gradient), state, params
        )
        params = optax.apply_updates(params, updates)
        now = rate * np.cos(7 * np.pi * step / (16 * steps))
        for name, weight in expected.items():
            g = gradient[name] + (decay * weight if name == "kernel" else 0)
            velocity[name] = 0.9 * velocity[name] + g
            expected[name] = weight - now * (g + 0.9 * velocity[name])
    for name, weight in expected.items():
        np.testing.assert_allclose(params[name], weight, rtol=1e-5, atol=1e-6)


def test_without_decay_adam_keeps_the_state_it_always_had():
    params = {"kernel": jnp.ones((2, 2))}
    plain = optax.adam(1e-2).init(params)
    found = make_optimizer(1e-2, "constant", 10).init(params)
    assert jax.tree.structure(found) == jax.tree.structure(plain)


def refreshed(state, method, outputs, where):
    valid = {"logits": jnp.zeros((0, outputs.shape[1]))}
    predictions = Predictions({"logits": outputs}, valid)
    return make_refresh(method)(state, predictions, where, jax.random.key(0))


def test_refresh_cuts_the_padding_and_gives_it_no_label():
    method, _, _, state = setup(threshold=0.5)
    rng = np.random.default_rng(0)
    rows = 10 * jax.nn.one_hot(rng.integers(3, size=NUM_UNLABELED), 7)
    padding = 10 * jax.nn.one_hot(jnp.zeros(8, jnp.int32), 7)  # would be confident
    where = jnp.arange(NUM_UNLABELED + 8) < NUM_UNLABELED
    labels = refreshed(state, method, jnp.concatenate([rows, padding]), where)
    alone = refreshed(state, method, rows, jnp.ones(NUM_UNLABELED, bool))
    assert labels.label.shape == (NUM_UNLABELED,) and labels.weight.sum() > 0
    assert_trees_equal(labels, alone)


def test_step_predict_and_refresh_lower_for_tpu_and_cuda():
    method, forward, optimizer, state = setup_wide_resnet()
    predict = make_predict(forward, PIXELS.mean, PIXELS.std)
    raw, key = batch(), jax.random.key(0)
    step = make_train_step(method, forward, optimizer, PIXELS, ema_decay=0.9)
    outputs = predict(state.params, state.stats, raw.unlabeled)
    valid = {name: value[:0] for name, value in outputs.items()}
    where = jnp.ones(len(raw.unlabeled), bool)
    state = state._replace(method=jax.tree.map(lambda a: a[:8], state.method))
    calls = (
        (step, (state, raw, key)),
        (predict, (state.params, state.stats, raw.unlabeled)),
        (make_refresh(method), (state, Predictions(outputs, valid), where, key)),
    )
    for function, args in calls:
        export = jax.export.export(jax.jit(function), platforms=["tpu", "cuda"])
        exported = export(*args)
        assert exported.platforms == ("tpu", "cuda")


def test_the_compiled_step_donates_its_state():
    method, forward, optimizer, state = setup_wide_resnet("baseline")
    programs = make_programs(
        method, forward, optimizer, PIXELS, sharding.data_mesh(), ema_decay=0.9
    )
    state = sharding.replicate(state, sharding.data_mesh())
    new, _ = programs.supervised(state, batch(num_unlabeled=0), 1, jax.random.key(0))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(new.params))


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_what_an_accelerator_runs(platform):
    """Several steps a call: the state donated, bfloat16, no word to the host."""
    method, forward, optimizer, state = setup_wide_resnet(dtype="bfloat16")
    mesh = sharding.data_mesh(jax.devices())
    options = {"ema_decay": 0.9, "steps_per_call": 4}
    programs = make_programs(method, forward, optimizer, PIXELS, mesh, **options)
    state = sharding.replicate(state, mesh)
    raw = jax.tree.map(lambda x: np.stack([x] * 4), batch())
    batches = sharding.put_rows(raw, mesh, axis=1)
    key = jax.random.key(0)
    traced = programs.semi_supervised.trace(state, batches, np.int32(4), key)
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    header = text[text.index("@main") : text.index(") ->")]
    donated = re.findall("tf.aliasing_output|jax.buffer_donor", header)
    assert len(donated) == len(jax.tree.leaves(state))
    split = re.findall(r'sdy.sharding = #sdy.sharding<@\w+, \[{}, {"data"}', header)
    assert len(split) == len(RawBatch._fields)
    convolutions = re.findall(r"stablehlo.convolution.* : (.*)", text)
    assert len(convolutions) > 20  # forward and backward, inside the loop
    assert all("f32" not in types for types in convolutions)
    assert "stablehlo.while" in text
    assert not re.search("callback|infeed|outfeed|stablehlo.send", text)
