"""Killed again and again, a run ends bit for bit as one that was left alone.

Each kind of run goes through a chain of SIGKILLs at named moments, and through chains
at moments that a fixed seed draws; every process goes on where the last one was killed.
"""

import random

import pytest

from tests.faults.forked import After, Before, FileEvent, Seconds, killed_at, run
from tests.faults.injected import Injected
from tests.faults.kinds import KINDS, left

pytestmark = pytest.mark.slow

LOOP, WORKDIR = "upsilon_jax.training.loop", "upsilon_jax.workdir"
NAMED = {
    "the data are read": After(f"{LOOP}:prepare"),
    "config.json is written, manifest.json not": After(f"{WORKDIR}.files:write_json"),
    "the first save is under way": After(f"{WORKDIR}.checkpoint:Checkpoints.save"),
    "a checkpoint was read": After(f"{WORKDIR}.checkpoint:Checkpoints.restore"),
    "all steps of an epoch are taken": After(f"{LOOP}:train_epoch"),
    "an evaluation begins": Before(f"{LOOP}:accuracy"),
    "an epoch has ended and is not saved": After(f"{LOOP}:_finish_epoch"),
    "a save has ended and is not noted": Before(f"{WORKDIR}.checkpoint:mark_saved"),
    "the findings are to be written": Before(f"{WORKDIR}.findings:save"),
    "the curves are drawn, the rest not": After(
        "upsilon_jax.report.page.workdir_files:save_curves"
    ),
    "all but result.json is written": After("upsilon_jax.training.ending:write_sums"),
    "all is written and nothing said": After(f"{LOOP}:write_end"),
}
# Every second one for each kind of run: the one half, or the other.
CHOSEN = {kind: list(NAMED)[i % 2 :: 2] for i, kind in enumerate(KINDS)}
RANDOM = 4  # kills of each kind at drawn moments
INJECTED = {
    "test_kills_at_named_moments": Injected(sum(map(len, CHOSEN.values()))),
    "test_kills_at_random_moments": Injected(RANDOM * len(KINDS)),
}


def assert_ends_as(expected, args, workdir):
    ended = run(*args, workdir=workdir)
    assert ended.code == 0, ended.said
    assert left(workdir) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_kills_at_named_moments(tmp_path, whole, kind):
    args, expected = whole(kind)
    for name in CHOSEN[kind]:
        ended = run(*args, workdir=tmp_path / "run", first=(killed_at, NAMED[name]))
        assert ended.killed, (name, ended)
    assert_ends_as(expected, args, tmp_path / "run")


@pytest.mark.parametrize("kind", KINDS)
def test_kills_at_random_moments(tmp_path, whole, kind):
    args, expected = whole(kind)
    rng, kills, chain = random.Random(kind), 0, 0
    while kills < RANDOM:
        workdir = tmp_path / f"run_{chain}"
        moment = FileEvent(str(workdir), rng.randint(1, 80))
        if not kills:
            moment = Seconds(rng.uniform(0, 3))
        ended = run(*args, workdir=workdir, first=(killed_at, moment))
        if ended.killed:
            kills += 1
            continue
        assert ended.code == 0, ended.said  # it came to its end before the moment
        assert left(workdir) == expected
        chain += 1
        assert chain <= RANDOM
    assert_ends_as(expected, args, tmp_path / f"run_{chain}")
