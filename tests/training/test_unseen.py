"""Foreign images from elsewhere, at the end of a run."""

import numpy as np
import pytest

import upsilon_jax
from tests.training.tiny_run import baseline
from upsilon_jax.runtime import sharding
from upsilon_jax.training.refresh import predict, predict_images
from upsilon_jax.training.setup import initial_state, prepare

pytestmark = pytest.mark.slow


def test_unseen_images_are_measured_and_change_no_other_number(tmp_path):
    with_noise = baseline(**{"data.unseen": "noise"})
    found = upsilon_jax.train(with_noise, tmp_path / "noise")
    plain = upsilon_jax.train(baseline(), tmp_path / "plain")
    assert found["params_digest"] == plain["params_digest"]
    unseen = {k for k in found["open_set"] if k.startswith("unseen_")}
    assert all(0 <= found["open_set"][k] <= 1 for k in unseen) and len(unseen) == 3
    assert plain["open_set"] == found["open_set"] | dict.fromkeys(unseen)


def test_images_from_elsewhere_are_predicted_as_those_of_the_data():
    run = prepare(baseline())
    state = initial_state(run)
    index = np.arange(301)  # no multiple of the 128 rows of a chunk
    images = run.source.read("test", index)
    rows = lambda outputs: sharding.fetch(outputs["logits"])[: len(index)]
    np.testing.assert_allclose(
        rows(predict_images(run, state.ema, images)),
        rows(predict(run, state.ema, "test", index)),
        rtol=1e-6,
    )
