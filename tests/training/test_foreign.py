"""Runs that say how much of D_u is foreign, and that choose γ by it."""

import pytest

import upsilon_jax
from tests.training.tiny_run import interrupt_after, tiny, without_seconds
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.workdir.records import parse, read
from upsilon_jax.workdir.schema import Manifest, Result
from upsilon_jax.workdir.summary import summary


def tuned():
    config = tiny(**{"data.valid_per_class": 10})
    config.method.ood_threshold = "auto"
    return config


@pytest.mark.slow
def test_a_run_that_chooses_gamma_ends_the_same_when_interrupted(tmp_path):
    whole = upsilon_jax.train(tuned(), tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 16)
        upsilon_jax.train(tuned(), tmp_path / "cut")
    cut = upsilon_jax.train(tuned(), tmp_path / "cut")
    assert cut["resumed_from"] and cut["params_digest"] == whole["params_digest"]
    assert without_seconds(cut["history"]) == without_seconds(whole["history"])
    assert cut["foreign"] == whole["foreign"]
    gammas = [
        read(Manifest, tmp_path / name / "manifest.json").foreign_below
        for name in ("whole", "cut")
    ]
    assert gammas[0] == gammas[1] and 0 <= gammas[0] <= tuned().method.threshold
    assert whole["config"]["method"]["ood_threshold"] == "auto"


def test_every_method_says_how_much_is_foreign(tmp_path):
    config = tiny("baseline", **{"train.epochs": 2})
    result = upsilon_jax.train(config, tmp_path)
    found = parse(Result, result, "it").foreign
    assert 0 <= found.low <= found.share <= found.high <= 1
    # Without γ the estimate says what counts as foreign.
    below = read(Manifest, tmp_path / "manifest.json").foreign_below
    assert below == pytest.approx(found.threshold)
    line = f"about {found.share:.0%} of the unlabeled ones"
    assert line in summary(result, tmp_path)
