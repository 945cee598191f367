"""Several seeds in one run: one after the other, and side by side on many devices."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import upsilon_jax
from tests.training.test_loop import STEPS_PER_EPOCH, baseline, tiny, without_seconds
from upsilon_jax.commandline import run_name
from upsilon_jax.data.streams import HostBatch
from upsilon_jax.methods import METHODS
from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.training import feed, loop
from upsilon_jax.training.step import (
    Pixels,
    RawBatch,
    RawBatches,
    init_state,
    make_optimizer,
    make_train_step,
    make_train_steps,
)
from upsilon_jax.workdir.results import of_seeds, summary

pytestmark = pytest.mark.usefixtures("no_tensorboard")


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
    assert first.programs is second.programs and first.feed is second.feed
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


@pytest.mark.slow
def test_seeds_side_by_side_are_the_seeds_alone(tmp_path, monkeypatch, prepared):
    on_devices(monkeypatch, 4)  # two for each
    result = upsilon_jax.train(tiny(**{"train.num_seeds": 2}), tmp_path / "both")
    assert [run.mesh.size for run in prepared] == [2, 2]
    # No step was taken alone: the programs of one seed were never called.
    assert all(run.programs.semi_supervised.cache_size() == 0 for run in prepared)
    for seed, one in enumerate(result["seeds"]):
        on_devices(monkeypatch, 2)
        alone = upsilon_jax.train(tiny(seed=seed), tmp_path / f"alone_{seed}")
        assert one["split_digest"] == alone["split_digest"]
        # The same sums in another program; Adam makes rounding larger step by step.
        first, second = (r["history"][0]["loss"] for r in (one, alone))
        assert first == pytest.approx(second, rel=1e-3)
        assert one["accuracy"] == pytest.approx(alone["accuracy"], abs=0.05)


@pytest.mark.slow
def test_seeds_side_by_side_go_on_where_they_were_stopped(tmp_path, monkeypatch):
    on_devices(monkeypatch, 2)
    config = lambda: tiny(**{"train.num_seeds": 2, "train.epochs": 4})
    whole = upsilon_jax.train(config(), tmp_path / "whole")

    class InterruptOnce(loop.Interrupts):
        looks = 0

        @property
        def pending(self):
            type(self).looks += 1
            self._signum = 15 if type(self).looks > STEPS_PER_EPOCH + 6 else None
            return super().pending

    with monkeypatch.context() as patch:
        patch.setattr(loop, "Interrupts", InterruptOnce)
        with pytest.raises(Interrupted):
            upsilon_jax.train(config(), tmp_path / "stopped")
    resumed = upsilon_jax.train(config(), tmp_path / "stopped")
    for one, other in zip(resumed["seeds"], whole["seeds"], strict=True):
        assert one["resumed_from"] and one["params_digest"] == other["params_digest"]
        assert without_seconds(one["history"]) == without_seconds(other["history"])


@pytest.mark.slow
def test_a_seed_that_lags_catches_up_and_one_that_diverges_drops_out(
    tmp_path, monkeypatch
):
    on_devices(monkeypatch, 2)
    short = tiny("baseline", **{"train.num_seeds": 1, "train.epochs": 2})
    upsilon_jax.train(short, tmp_path / "seed_0")
    config = tiny("baseline", **{"train.num_seeds": 2, "train.epochs": 4})
    result = upsilon_jax.train(config, tmp_path, override_config=True)
    ahead, lagging = result["seeds"]
    assert (
        ahead["resumed_from"] == [2 * STEPS_PER_EPOCH] and not lagging["resumed_from"]
    )
    assert len(ahead["history"]) == len(lagging["history"]) == 4

    def poisoned(run, original=loop.initial_state):
        state = original(run)
        spoil = lambda x: x * jnp.nan if run.config.seed == 1 else x
        return state._replace(params=jax.tree.map(spoil, state.params))

    monkeypatch.setattr(loop, "initial_state", poisoned)
    result = upsilon_jax.train(config, tmp_path / "poisoned")
    assert [one["status"] for one in result["seeds"]] == ["finished", "diverged"]
    assert result["status"] == "diverged" and result["accuracy"] > 0
    assert result["seeds"][1]["diverged_step"] == 1


# One step of two seeds, apart from any loop.

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


def host_batch(seed):
    rng = np.random.default_rng(seed)
    rows = lambda high: rng.integers(high, size=8).astype(np.int32)
    images = lambda: rng.integers(256, size=(8, 4, 4, 1), dtype=np.uint8)
    return HostBatch(rows(50), rows(3), rows(50), rows(24), images(), images())


def raw(host):
    return RawBatch(host.image, host.label, host.unlabeled_image, host.index)


def test_a_step_of_two_seeds_on_8_devices_is_two_steps(x64):
    meshes = [
        sharding.data_mesh(jax.devices()[:4]),
        sharding.data_mesh(jax.devices()[4:]),
    ]
    keys = [jax.random.key_data(jax.random.key(seed)) for seed in range(2)]
    step, _ = step_and_state(0, np.float64)
    with_key = lambda state, batch, key: step(
        state, batch, jax.random.wrap_key_data(key)
    )
    states = [step_and_state(seed, np.float64)[1] for seed in range(2)]
    batches = [raw(host_batch(seed)) for seed in range(2)]
    together = jax.jit(sharding.side_by_side(with_key, meshes))
    place = lambda put, trees: sharding.join(
        [put(tree, mesh) for tree, mesh in zip(trees, meshes, strict=True)], meshes
    )
    joined, metrics = together(
        place(sharding.replicate, states),
        place(sharding.put_rows, batches),
        place(sharding.replicate, keys),
    )
    assert len(joined.params["w"].devices()) == 8
    parts = sharding.part(joined, meshes)
    for number in range(2):
        state, own = jax.jit(with_key)(states[number], batches[number], keys[number])
        assert metrics["loss"][number] == pytest.approx(float(own["loss"]), rel=1e-9)
        jax.tree.map(
            # The state of a method is float32 in any case.
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12),
            jax.device_get(parts[number]),
            jax.device_get(state),
        )


def test_several_steps_in_one_call_are_those_steps(x64):
    step, state = step_and_state(0, np.float64)
    mesh, key = sharding.data_mesh(), jax.random.key(0)
    state = sharding.replicate(state, mesh)
    several = jax.jit(make_train_steps(step))
    plain, losses = state, []
    for seed in range(5):
        plain, metrics = jax.jit(step)(plain, raw(host_batch(seed)), key)
        losses.append(float(metrics["loss"]))
    stream = feed.Feed(batch=raw, in_order=None, read=None)
    found = []
    for seeds in (range(3), range(3, 5)):  # the second call is not full
        batches = feed.several(stream, [host_batch(s) for s in seeds], 3, mesh)
        assert isinstance(batches, RawBatches) and batches.batch.label.shape == (3, 8)
        state, metrics = several(state, batches, key)
        found += [float(loss) for loss in metrics["loss"][: len(seeds)]]
    assert several._cache_size() == 1
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12),
        state,
        plain,
    )


@pytest.mark.slow
@pytest.mark.parametrize("residency", ["resident", "stream"])
def test_a_run_with_several_steps_a_call_is_the_same_run(
    tmp_path, monkeypatch, residency
):
    from upsilon_jax.training import setup as run_lib

    def open_source(config, original=run_lib.open_source):
        return original(config)._replace(resident=residency == "resident")

    monkeypatch.setattr(run_lib, "open_source", open_source)
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
    common = {"config": {"method": {"name": "pl"}, "data": {"name": "digits"}}}
    one = lambda seed, accuracy: {
        **common,
        "seed": seed,
        "status": "diverged" if accuracy is None else "finished",
        "accuracy": accuracy,
        "accuracy_live": accuracy,
    }
    text = summary(of_seeds([one(0, 0.9), one(1, None), one(2, 0.8)]), tmp_path)
    assert "seed 0      90.00%" in text and "seed 1      diverged" in text
    assert "85.00 ± 7.07 %" in text


def test_a_workdir_of_several_seeds_is_named_by_the_first_and_the_last(monkeypatch):
    monkeypatch.setattr("upsilon_jax.commandline.config_name", lambda: "digits")
    config = tiny(**{"train.num_seeds": 5, "seed": 2})
    assert run_name(config) == "digits-upsilon-m50-s2-6"
