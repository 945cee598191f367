"""No two methods are the same program, and the baseline ignores unlabeled images."""

import collections

import pytest

import upsilon_jax
from configs import digits
from upsilon_jax.methods import METHODS


def short(method, mismatch=0.5):
    """Three epochs on digits with τ = 0.5, so that every rule selects something."""
    config = digits.get_config(method)
    config.data.update(mismatch=mismatch, augmentation="weak")
    config.model.update(width=1, bn_decay=0.5)
    config.train.update(epochs=3, pretrain_epochs=min(1, config.train.pretrain_epochs))
    if "threshold" in config.method and config.method.get("score") != "entropy":
        config.method.threshold = 0.5
    return config


@pytest.mark.slow
@pytest.mark.usefixtures("no_tensorboard")
def test_every_method_ends_with_weights_of_its_own(tmp_path):
    methods_of = collections.defaultdict(list)
    for name in METHODS:
        result = upsilon_jax.train(short(name), tmp_path / name)
        assert result["status"] == "finished"
        methods_of[result["params_digest"]].append(name)
    assert len(methods_of) == len(METHODS), list(methods_of.values())
    for mismatch in (0.0, 1.0):
        config = short("baseline", mismatch)
        result = upsilon_jax.train(config, tmp_path / f"baseline {mismatch}")
        assert methods_of[result["params_digest"]] == ["baseline"]
