"""Several seeds in one run: one after the other, and side by side on many devices."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import upsilon_jax
from tests.training.tiny_run import (
    STEPS_PER_EPOCH,
    baseline,
    interrupt_after,
    tiny,
    without_seconds,
)
from tests.workdir.test_schema import make_result
from upsilon_jax.config import run_name
from upsilon_jax.data.samplers import Draws, in_calls
from upsilon_jax.methods import METHODS
from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.training import loop, setup
from upsilon_jax.training.step import (
    Pixels,
    RawBatch,
    init_state,
    make_optimizer,
    make_train_step,
    make_train_steps,
)
from upsilon_jax.workdir.records import plain
from upsilon_jax.workdir.summary import of_seeds, summary


def on_devices(monkeypatch, count):
    """Training may use so many of the virtual devices."""
    devices = jax.devices()[:count]
    monkeypatch.setattr(sharding, "_default_devices", lambda: devices)


def stored(workdir):
    return json.loads((workdir / "result.json").read_text())


def test_seeds_on_one_device_are_runs_of_their_own_with_one_compiled_step(
    tmp_path, prepared, capsys
):
    config = lambda seed, count: baseline(**{"seed": seed, "train.num_seeds": count})
    result = upsilon_jax.train(config(3, 2), tmp_path)
    told = capsys.readouterr().err.splitlines()
    assert {line.split(":")[0] for line in told} == {"seed 3", "seed 4"}
    first, second = prepared
    assert first.programs is second.programs and first.source is second.source
    assert first.programs.supervised.cache_size() == 1
    assert result["accuracy"] == np.mean([r["accuracy"] for r in result["seeds"]])
    for seed, one in zip((3, 4), result["seeds"], strict=True):
        assert stored(tmp_path / f"seed_{seed}") == one
        assert one["seed"] == seed and one["config"]["train"]["num_seeds"] == 1
    alone = upsilon_jax.train(config(4, 1), tmp_path / "alone")
    assert alone["params_digest"] == result["seeds"][1]["params_digest"]
    # A finished run is found again, each seed by itself.
    prepared.clear()
    assert upsilon_jax.train(config(3, 2), tmp_path) == result
    assert not prepared


def test_runs_that_differ_in_more_than_their_seed_share_no_program():
    shared = setup.Shared()
    prepare = lambda **changes: setup.prepare(baseline(**changes), shared=shared)
    first = prepare()
    assert prepare(seed=1).programs is first.programs
    for changes in (
        {"data.num_unlabeled": 64},  # fewer steps, and another |D_u|
        {"train.epochs": 3},  # the learning rate falls later
        {"data.labels_per_class": 4, "train.ema_decay": 0.5},
    ):
        assert prepare(**changes).programs is not first.programs
    pl = lambda **changes: setup.prepare(tiny("pl", **changes), shared=shared)
    assert pl().programs is not pl(**{"method.loss_weight": 0.5}).programs


@pytest.mark.slow
def test_seeds_side_by_side_are_the_seeds_alone(tmp_path, monkeypatch, prepared):
    on_devices(monkeypatch, 4)  # two for each
    result = upsilon_jax.train(tiny(**{"train.num_seeds": 2}), tmp_path / "both")
    assert [run.mesh.size for run in prepared] == [2, 2]
    assert not set(prepared[0].mesh.devices) & set(prepared[1].mesh.devices)
    for seed, one in enumerate(result["seeds"]):
        on_devices(monkeypatch, 2)
        alone = upsilon_jax.train(tiny(seed=seed), tmp_path / f"alone_{seed}")
        assert one["params_digest"] == alone["params_digest"]
        assert without_seconds(one["history"]) == without_seconds(alone["history"])


@pytest.mark.slow
def test_seeds_side_by_side_go_on_where_they_were_stopped(tmp_path, monkeypatch):
    on_devices(monkeypatch, 2)
    config = lambda: tiny(**{"train.num_seeds": 2, "train.epochs": 4})
    whole = upsilon_jax.train(config(), tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 6 * STEPS_PER_EPOCH)  # looks of both
        with pytest.raises(Interrupted):
            upsilon_jax.train(config(), tmp_path / "stopped")
    resumed = upsilon_jax.train(config(), tmp_path / "stopped")
    for one, other in zip(resumed["seeds"], whole["seeds"], strict=True):
        assert one["resumed_from"] and one["params_digest"] == other["params_digest"]
        assert without_seconds(one["history"]) == without_seconds(other["history"])


@pytest.mark.slow
def test_a_seed_that_is_ahead_goes_on_and_one_that_diverges_ends(tmp_path, monkeypatch):
    on_devices(monkeypatch, 2)
    short = tiny("baseline", **{"train.num_seeds": 1, "train.epochs": 2})
    upsilon_jax.train(short, tmp_path / "seed_0")
    config = tiny("baseline", **{"train.num_seeds": 2, "train.epochs": 4})
    result = upsilon_jax.train(config, tmp_path, override_config=True)
    ahead, other = result["seeds"]
    assert ahead["resumed_from"] == [2 * STEPS_PER_EPOCH] and not other["resumed_from"]
    assert len(ahead["history"]) == len(other["history"]) == 4

    def poisoned(run, original=loop.initial_state):
        state = original(run)
        spoil = lambda x: x * jnp.nan if run.config.seed == 1 else x
        return state._replace(params=jax.tree.map(spoil, state.params))

    monkeypatch.setattr(loop, "initial_state", poisoned)
    result = upsilon_jax.train(config, tmp_path / "poisoned")
    assert [one["status"] for one in result["seeds"]] == ["finished", "diverged"]
    assert result["status"] == "diverged" and result["accuracy"] > 0
    assert result["seeds"][1]["diverged_step"] == 1


def test_a_seed_that_fails_stops_the_others_and_is_told(tmp_path, monkeypatch):
    on_devices(monkeypatch, 2)

    def broken(run, *rest, original=loop._train):
        if run.config.seed == 0:
            raise ZeroDivisionError("of seed 0")
        original(run, *rest)

    monkeypatch.setattr(loop, "_train", broken)
    config = tiny("baseline", **{"train.num_seeds": 2, "train.epochs": 200})
    with pytest.raises(ZeroDivisionError, match="of seed 0"):
        upsilon_jax.train(config, tmp_path)
    assert not (tmp_path / "seed_1" / "result.json").exists()


# One step, apart from any loop.

PIXELS = Pixels(mean=(0.5,), std=(0.25,), augmentation="none", flip=False)


def linear(params, stats, images, key, train):
    return {"logits": images.reshape(images.shape[0], -1) @ params["w"]}, stats


def step_and_state(seed, dtype=np.float32):
    method = METHODS["upsilon"](3, num_clusters=2, ramp_steps=0)
    rng = np.random.default_rng(seed)
    params = {"w": jnp.asarray(0.1 * rng.normal(size=(16, 5)), dtype)}
    optimizer = make_optimizer(1e-2, "constant", 100)
    own = method.init(jax.random.key(0), params, 24)
    own = own._replace(label=own.label * 0, weight=own.weight + 1)
    state = init_state(optimizer, params, {}, own)
    return make_train_step(method, linear, optimizer, PIXELS, ema_decay=0.9), state


def raw_batches(num_steps):
    rng = np.random.default_rng(0)
    rows = lambda high: rng.integers(high, size=(num_steps, 8)).astype(np.int32)
    images = lambda: rng.integers(256, size=(num_steps, 8, 4, 4, 1), dtype=np.uint8)
    return RawBatch(images(), rows(3), images(), rows(24))


def test_several_steps_in_one_call_are_those_steps(x64):
    step, state = step_and_state(0, np.float64)
    key, batches = jax.random.key(0), raw_batches(5)
    several = jax.jit(make_train_steps(step))
    plain_state, losses = state, []
    for number in range(5):
        batch = RawBatch(*(part[number] for part in batches))
        plain_state, metrics = jax.jit(step)(plain_state, batch, key)
        losses.append(float(metrics["loss"]))
    found = []
    for part, count in in_calls(Draws(*batches), 3):  # the second call is not full
        state, metrics = several(state, RawBatch(*part), np.int32(count), key)
        found += [float(loss) for loss in metrics["loss"][:count]]
    assert several._cache_size() == 1
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    jax.tree.map(
        # The state of a method is float32 in any case.
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12),
        state,
        plain_state,
    )


@pytest.mark.slow
@pytest.mark.parametrize("residency", ["resident", "stream"])
def test_a_run_with_several_steps_a_call_is_the_same_run(
    tmp_path, monkeypatch, residency
):
    def open_source(config, original=setup.open_source):
        return original(config)._replace(resident=residency == "resident")

    monkeypatch.setattr(setup, "open_source", open_source)
    results = [
        upsilon_jax.train(
            tiny(**{"train.steps_per_call": steps, "train.epochs": 3}),
            tmp_path / f"{steps}",
        )
        for steps in (1, 2)  # of three in an epoch
    ]
    losses = [[entry["loss"] for entry in r["history"]] for r in results]
    # Another program; Adam makes rounding larger step by step.
    np.testing.assert_allclose(*losses, rtol=1e-2)
    assert results[0]["history"][-1]["step"] == results[1]["history"][-1]["step"]


def test_the_summary_names_every_seed_and_the_mean(tmp_path):
    one = lambda seed, accuracy: make_result(
        seed=seed,
        status="diverged" if accuracy is None else "finished",
        accuracy=accuracy,
        accuracy_live=accuracy,
    )
    text = summary(plain(of_seeds([one(0, 0.9), one(1, None), one(2, 0.8)])), tmp_path)
    assert "seed 0      90.00%" in text and "seed 1      diverged" in text
    assert "85.00 ± 7.07 %" in text


def test_a_workdir_of_several_seeds_is_named_by_the_first_and_the_last():
    config = tiny(**{"train.num_seeds": 5, "seed": 2})
    assert run_name("digits", config) == "digits-upsilon-m50-s2-6"
