"""What a run says of its time before the first step, and that it stays the same run."""

import pytest

import upsilon_jax
from configs import cifar10, digits
from tests.training.tiny_run import STEPS_PER_EPOCH, interrupt_after, tiny
from upsilon_jax.config import Schedule
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.training import estimate
from upsilon_jax.workdir.pace import Pace

SCHEDULE = Schedule(100, 10, 4, 2, 1, 1, 1)  # 400 and 600 steps; refreshes at 4, 6, 8


@pytest.fixture
def probed(monkeypatch):
    """Even the shortest run is probed; what was measured is in the list."""
    seen = []

    def probe(*args, original=estimate.probe):
        seen.append(original(*args))
        return seen[-1]

    monkeypatch.setattr(estimate, "_FEWEST_CALLS", 1)
    monkeypatch.setattr(estimate, "probe", probe)
    return seen


def test_a_run_that_was_probed_and_goes_on_is_the_same_run(
    tmp_path, probed, prepared, monkeypatch, capsys
):
    looks = 6 + 5 * STEPS_PER_EPOCH  # those of the probe come first
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, looks)
        upsilon_jax.train(tiny(), tmp_path / "probed")
    result = upsilon_jax.train(tiny(), tmp_path / "probed")
    whole, rest = probed
    assert whole["step"].keys() == {True, False} and min(whole["step"].values()) > 0
    assert whole["refresh"] > 0 and whole["evaluate"] > 0
    assert rest["step"].keys() == {False}  # pre-training is over
    told = [line for line in capsys.readouterr().err.splitlines() if "to take" in line]
    assert told[0].startswith("18 steps to take, less than a minute: 6 on labeled")
    assert not told[1].startswith("18") and "on labeled" not in told[1]
    programs = prepared[0].programs
    for program in (programs.supervised, programs.semi_supervised):
        assert program.cache_size() == 1  # the probe compiles nothing of its own
    monkeypatch.setattr(estimate, "_FEWEST_CALLS", 10_000)
    plain = upsilon_jax.train(tiny(), tmp_path / "plain")
    assert len(probed) == 2
    assert result["params_digest"] == plain["params_digest"]


def test_the_plan_has_times_where_they_are_known():
    pace = Pace(SCHEDULE)
    kinds = "400 on labeled images alone{}, then 600 with unlabeled ones{}"
    assert estimate.plan(pace, 0, 0) == f"1,000 steps to take: {kinds.format('', '')}"
    pace.expect({True: 0.5, False: 2.0}, refresh=1.0, evaluate=0.1)
    times = kinds.format(" (0.5 s each)", " (2 s each)")
    assert estimate.plan(pace, 0, 0) == f"1,000 steps to take, about 23 min: {times}"
    pace.expect({}, refresh=200.0)
    line = estimate.plan(pace, 700, 7)
    assert line == (
        "300 steps to take, about 13 min: 300 with unlabeled ones (2 s each); "
        "25% of the time for refreshes and evaluations"
    )


@pytest.mark.parametrize(
    ("hours", "flags", "expected"),
    [
        (2, "--config.train.epochs=200 --config.train.pretrain_epochs=25", 1),
        (
            30,
            "--config.data.image_size=16 --config.train.epochs=44 "
            "--config.train.pretrain_epochs=5",
            1,
        ),
        (
            1000,
            "--config.data.image_size=16 --config.model.width=1 "
            "--config.train.epochs=20 --config.train.pretrain_epochs=2",
            1000 * estimate._HALF_SIZE * estimate._HALF_WIDTH / 20,
        ),
    ],
)
def test_a_quicker_setting_is_named(hours, flags, expected):
    found, seconds = estimate.quicker(cifar10.get_config(), 32, 3600 * hours)
    assert found == flags
    assert seconds == pytest.approx(3600 * expected, rel=0.03)


def test_small_images_and_short_runs_have_nothing_to_lose():
    config = digits.get_config()
    config.train.epochs, config.model.width = 10, 1
    flags, seconds = estimate.quicker(config, 8, 7200)
    assert (flags, seconds) == ("", 7200)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (20, "less than a minute"),
        (61, "about 1 min"),
        (5000, "about 83 min"),
        (3600 * 30, "about 30 h"),
        (3600 * 24 * 9, "about 9 days"),
    ],
)
def test_durations(seconds, told):
    assert estimate.duration(seconds) == told
