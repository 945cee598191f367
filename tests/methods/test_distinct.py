"""No two methods are the same program."""

import collections

import pytest

import upsilon_jax
from configs import digits
from tests.conftest import HASTE_IN_TRAINING
from upsilon_jax.config.build import build_method
from upsilon_jax.methods import METHODS
from upsilon_jax.runtime import compilation


def short(method):
    """Three epochs on digits with τ = 0.5, so that every rule selects something."""
    config = digits.get_config(method)
    config.data.augmentation = "weak"
    config.model.update(width=1, bn_decay=0.5)
    config.train.update(epochs=3, pretrain_epochs=min(1, config.train.pretrain_epochs))
    if "threshold" in config.method and config.method.get("score") != "entropy":
        config.method.threshold = 0.5
    return config


def groups():
    """Methods whose networks have the same weights; others differ by their shapes."""
    methods_of = collections.defaultdict(list)
    for name in METHODS:
        method = build_method(short(name), 6, num_ood_classes=4, num_unlabeled=600)
        methods_of[frozenset(method.heads.items())].append(name)
    return [names for names in methods_of.values() if len(names) > 1]


@pytest.mark.slow
@pytest.mark.usefixtures("no_tensorboard")
@pytest.mark.parametrize("names", groups(), ids=lambda names: f"{names[0]} and others")
def test_every_method_ends_with_weights_of_its_own(tmp_path, monkeypatch, names):
    for option, value in HASTE_IN_TRAINING.items():
        monkeypatch.setitem(compilation.CPU_OPTIONS, option, value)
    methods_of = collections.defaultdict(list)
    for name in names:
        result = upsilon_jax.train(short(name), tmp_path / name)
        assert result["status"] == "finished"
        methods_of[result["params_digest"]].append(name)
    assert len(methods_of) == len(names), list(methods_of.values())
