"""Whole runs with μ > 1 and SGD: the protocol of newer rivals."""

import pytest

import upsilon_jax
from tests.training.tiny_run import interrupt_after, tiny, without_seconds
from upsilon_jax.runtime.interrupts import Interrupted

pytestmark = pytest.mark.slow

PROTOCOL = {
    "data.unlabeled_ratio": 3,
    "train.optimizer": "sgd",
    "train.learning_rate": 0.03,
    "train.lr_schedule": "cosine",
    "train.weight_decay": 5e-4,
    "train.epochs": 4,
    "train.pretrain_epochs": 0,
    "train.batch_size": 16,
}


def test_a_run_with_many_unlabeled_rows_goes_on_where_it_was_stopped(
    tmp_path, monkeypatch
):
    config = tiny("fixmatch", **PROTOCOL)
    whole = upsilon_jax.train(config, tmp_path / "whole")
    assert [entry["step"] for entry in whole["history"]] == [2, 4, 6, 8]  # 96 / 48 each
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 5)
        upsilon_jax.train(config, tmp_path / "cut")
    result = upsilon_jax.train(config, tmp_path / "cut")
    assert result["resumed_from"] and result["params_digest"] == whole["params_digest"]
    assert without_seconds(result["history"]) == without_seconds(whole["history"])
