"""Supervised epochs that runs of a sweep have in common."""

import pytest

import upsilon_jax
from tests.training.tiny_run import tiny
from upsilon_jax.training.pretrained import epochs_in_common
from upsilon_jax.training.setup import prepare


@pytest.mark.parametrize(
    ("method", "epochs"), [("upsilon", 1), ("baseline", 5), ("oracle", 0)]
)
def test_epochs_without_unlabeled_images_are_shared(method, epochs):
    assert epochs_in_common(prepare(tiny(method))) == epochs


@pytest.mark.slow
def test_labels_made_from_hidden_ones_are_not_taken_from_another_ratio(tmp_path):
    for ratio in (0.0, 1.0):
        config = tiny("oracle", **{"data.mismatch": ratio, "train.epochs": 3})
        workdir = tmp_path / f"at_{ratio}"
        result = upsilon_jax.train(config, workdir, pretrained=tmp_path / "shared")
        assert not result["resumed_from"]
        # The oracle gives every foreign image, and no other, a class of its own.
        expected = ratio * config.data.num_unlabeled
        assert result["history"][-1]["num_explored"] == expected
