"""K from the data: chosen before step 0, stored, and kept."""

import json

import numpy as np
import pytest

import upsilon_jax
from configs import digits
from tests.training.tiny_run import interrupt_after, tiny
from upsilon_jax.config.from_data import left_open
from upsilon_jax.errors import ConfigError
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.training import clusters
from upsilon_jax.training.clusters import count_directions, settle_clusters
from upsilon_jax.training.setup import Shared


def auto(config, field="method.num_clusters"):
    config.update_from_flattened_dict({field: "auto"})
    return config


def settle(config, workdir):
    said = []
    config, lines = settle_clusters(
        config, workdir, mesh=None, shared=Shared(), say=said.append
    )
    assert len(said) == len(lines)  # a line before a probe, and one after it
    return config, lines


@pytest.mark.parametrize("number", [3, 8, 15])
def test_directions_are_counted_whatever_the_number_of_features(number):
    rng = np.random.default_rng(number)
    # number + 1 equal groups, all at right angles, differ in `number` directions
    groups = np.repeat(np.eye(number + 1, 64), 50, axis=0)
    noise = 0.01 * rng.standard_normal(groups.shape)
    length = rng.uniform(0.5, 5, (len(groups), 1))
    assert count_directions(length * (groups + noise)) == number


def test_there_are_always_some_clusters_and_never_too_many():
    rng = np.random.default_rng(0)
    assert count_directions(np.ones((5, 8))) == count_directions(np.zeros((1, 8))) == 2
    assert count_directions(rng.standard_normal((1000, 100))) == 20


def test_a_number_is_left_as_it_is(tmp_path):
    config = tiny()
    assert settle(config, tmp_path) == (config, ())
    assert settle(config, tmp_path)[0] is config


def test_k_is_left_open_but_an_estimated_gamma_is_stored_as_such():
    config = auto(tiny(**{"method.ood_threshold": "auto"}))
    assert left_open(config) == {"method.num_clusters"}
    composed = auto(tiny("fixmatch+upsilon"), "method.upsilon.num_clusters")
    assert left_open(composed) == {"method.upsilon.num_clusters"}
    assert left_open(tiny()) == set()


@pytest.mark.parametrize(
    "name, field",
    [("upsilon", "num_clusters"), ("fixmatch+upsilon", "upsilon.num_clusters")],
)
def test_a_run_that_has_begun_keeps_its_number(tmp_path, monkeypatch, name, field):
    monkeypatch.setattr(clusters, "prepare", None)  # would fail if called
    config = auto(tiny(name), f"method.{field}")
    stored = tiny(name)
    stored.update_from_flattened_dict({f"method.{field}": 9})
    (tmp_path / "config.json").write_text(json.dumps(stored.to_dict()))
    settled, lines = settle(config, tmp_path)
    assert settled.to_dict() == stored.to_dict() and lines == ()


@pytest.mark.slow
def test_a_probe_that_diverges_is_one_line(tmp_path):
    config = auto(tiny(**{"train.learning_rate": 1e30}))
    with pytest.raises(ConfigError, match="is not finite; lower train.learning_rate"):
        settle(config, tmp_path)


@pytest.mark.slow
def test_a_run_with_a_number_from_the_data_is_the_run_with_that_number(
    tmp_path, monkeypatch, capsys
):
    asked = auto(tiny())
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 20)  # ten steps of the probe, ten of the run
        upsilon_jax.train(asked, tmp_path / "auto")
    shown = capsys.readouterr()
    stored = json.loads((tmp_path / "auto" / "config.json").read_text())
    number = stored["method"]["num_clusters"]
    assert 2 <= number <= 20
    line = f"K = {number} clusters, chosen from the features of a network trained for"
    before, _ = shown.err.split(f"{line} 10 steps on the labeled images")
    assert "K is left to the data: training for 10 steps" in before

    monkeypatch.setattr(clusters, "prepare", None)  # no second probe
    resumed = upsilon_jax.train(asked, tmp_path / "auto")
    assert resumed["resumed_from"] and resumed["config"] == stored
    told = upsilon_jax.train(tiny(**{"method.num_clusters": number}), tmp_path / "told")
    assert told["params_digest"] == resumed["params_digest"]
    manifest = json.loads((tmp_path / "auto" / "manifest.json").read_text())
    assert manifest["num_clusters"] == manifest["method"]["num_clusters"] == number
    assert upsilon_jax.train(asked, tmp_path / "auto") == resumed  # it is finished


@pytest.mark.slow
@pytest.mark.parametrize("mismatch", [0.5, 1.0])
def test_the_number_is_about_right_for_the_digits(tmp_path, mismatch):
    """There are four foreign digits."""
    config = auto(digits.get_config("upsilon"))
    config.seed, config.data.mismatch = 100, mismatch
    first, second = (settle(config, tmp_path)[0].method.num_clusters for _ in range(2))
    assert first == second and 2 <= first <= 8
