"""The benchmarks' peers compute what ours compute, or are said to be missing."""

import dataclasses
import os
import pkgutil

import jax
import numpy as np
import pytest

from benchmarks.__main__ import ROWS
from benchmarks.peers import MissingPeer, require, selection
from benchmarks.scales import FULL, Net, Peaked


def test_missing_peer_is_one_line_with_the_cure():
    with pytest.raises(
        MissingPeer, match=r"^no_such_peer is missing: pip install"
    ) as e:
        require("no_such_peer")
    assert "\n" not in str(e.value) and ".[bench]" in str(e.value)


def import_or_skip(peer):
    """Whoever has no peers may leave these tests out, but not `.ci/run`."""
    try:
        require(peer)
    except MissingPeer as error:
        if "PEERS_REQUIRED" in os.environ:
            raise
        pytest.skip(str(error))


def test_a_missing_peer_is_a_skip_but_not_where_peers_are_required(monkeypatch):
    monkeypatch.delenv("PEERS_REQUIRED", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no_such_peer is missing"):
        import_or_skip("no_such_peer")
    monkeypatch.setenv("PEERS_REQUIRED", "1")
    with pytest.raises(MissingPeer):
        import_or_skip("no_such_peer")


@pytest.mark.parametrize("peer", ["lexsort", "partition", "sort"])
def test_selection_peers_take_the_n_most_confident(peer):
    logits = np.random.default_rng(0).normal(0, 3, (300, 4)).astype(np.float32)
    selected = np.asarray(getattr(selection, peer)(logits, 0.8))
    exp = np.exp(logits.astype(np.float64))
    prob = exp / exp.sum(axis=1, keepdims=True)
    label, confidence = prob.argmax(axis=1), prob.max(axis=1)
    ranked = [
        sorted(
            np.flatnonzero((label == y) & (confidence > 0.8)),
            key=lambda i: -confidence[i],
        )
        for y in range(4)
    ]
    number = min(map(len, ranked))
    assert number > 0
    expected = sorted(i for rows in ranked for i in rows[:number])
    np.testing.assert_array_equal(np.flatnonzero(selected), expected)


# Every row checks that both sides compute the same: here on small problems.
TINY = dataclasses.replace(
    FULL,
    name="tiny",
    rounds=2,
    seconds=0.0,
    net=Net(10, 1, batch=8, image_size=16),
    smallest_net=Net(10, 1, batch=8, image_size=8),
    num_unlabeled=500,
    num_predicted=64,
    sinkhorn=((2000, 20),),
    balance=(Peaked(2000, 4, 2.0), Peaked(2000, 10, 2.0, rare=True)),
    relaxed=(Peaked(2000, 10, 2.0),),
    peer_work=10_000_000,
    rebalance=((2000, 10),),
    clusters=(4, 8),
    iterations=(1, 4),
    startup_net=(10, 1),
    startup_rounds=1,
    few_rows=200,
    many_rows=2000,
    middle_clusters=8,
    few_clusters=6,
    many_clusters=20,
    middle_rows=400,
    num_seeds=2,
)


@pytest.mark.slow
@pytest.mark.usefixtures("no_tensorboard")
@pytest.mark.filterwarnings("default")  # the peers' own
@pytest.mark.parametrize("number", ROWS)
def test_ours_and_peers_agree(number):
    row = ROWS[number]
    for peer in row.peers:
        import_or_skip(peer)
    function = pkgutil.resolve_name(row.function)
    with jax.numpy_rank_promotion("allow"):  # ott-jax relies on it
        found = function(TINY)
    assert len({result.case for result in found}) == len(found) > 0
    for result in found:
        assert result.row == number and np.isfinite(result.ratio).all()
