"""Ctrl-C and SIGTERM at any time: one line, 130 or 143, and nothing half-written."""

import os
import signal
import time

import pytest

from tests.faults import processes
from tests.faults.forked import After, Before, at, run
from tests.faults.injected import Injected
from tests.faults.kinds import left

LOOP, ENDING = "upsilon_jax.training.loop", "upsilon_jax.training.ending"
STAGES = {
    "the data are read": Before("upsilon_jax.training.setup:open_source"),
    "the manifest is made": Before(f"{LOOP}:make_manifest"),
    "a checkpoint is read": After("upsilon_jax.workdir.checkpoint:Checkpoints.restore"),
    "the findings are written": After("upsilon_jax.workdir.findings:save"),
    "the pictures are drawn": Before(f"{ENDING}:write_all"),
    "the checksums are written": After(f"{ENDING}:write_sums"),
    "the summary is made": Before("upsilon_jax.workdir.summary:summary"),
}
INJECTED = {"test_signals_before_and_after_training": Injected(survived=len(STAGES))}
DELAYS = (0.1, 0.4, 1.0)  # the command imports for seconds
# Every second stage for each signal: the one half, or the other.
CHOSEN = {signal.SIGINT: list(STAGES)[::2], signal.SIGTERM: list(STAGES)[1::2]}
CODES = {signal.SIGINT: (130, "stopped by SIGINT"), signal.SIGTERM: (143, "SIGTERM")}


def _signal_at(moment, signum):
    at(moment, lambda: signal.raise_signal(signum))


@pytest.mark.slow
@pytest.mark.parametrize("signum", CODES)
def test_signals_before_and_after_training(tmp_path, whole, signum):
    """One run is stopped at every stage, goes on, and ends as one left alone."""
    (args, expected), (code, told) = whole("single"), CODES[signum]
    workdir = tmp_path / "run"
    for stage in CHOSEN[signum]:
        ended = run(*args, workdir=workdir, first=(_signal_at, STAGES[stage], signum))
        if stage == "the checksums are written":  # too late to stop
            assert ended.code in (0, code), ended
            continue
        assert ended.code == code, (stage, ended)
        assert told in ended.said.splitlines()[-1] and "Traceback" not in ended.said
        assert not list(workdir.rglob("*.partial"))
    ended = run(*args, workdir=workdir)
    assert ended.code == 0, ended.said
    assert left(workdir) == expected


@pytest.mark.slow
@pytest.mark.parametrize("signum", CODES)
def test_signals_while_the_command_is_imported(tmp_path, signum):
    for delay in DELAYS:
        process = processes.start(*processes.TINY, f"--workdir={tmp_path / 'run'}")
        # Python itself catches SIGINT; the command sets both handlers at once.
        answers = lambda: processes.catches(process.pid, signal.SIGTERM)  # noqa: B023
        processes.wait_for(answers, process)
        time.sleep(delay)
        process.send_signal(signum)
        code, out, err = processes.finish(process)
        assert code == CODES[signum][0] and not out
        assert CODES[signum][1] in err.splitlines()[-1] and "Traceback" not in err
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.mark.slow
def test_a_run_that_diverges_ends_with_3_whenever_it_is_repeated(tmp_path, whole):
    args = (*whole("single")[0], "--config.train.learning_rate=1e30")
    said = set()
    for _ in range(3):
        ended = run(*args, workdir=tmp_path / "run")
        assert ended.code == 3, ended
        said.add(ended.said.partition("upsilon on digits: diverged")[2])
    assert len(said) == 1 and "start anew" in said.pop()
    assert all(name.isdecimal() for name in os.listdir(tmp_path / "run/checkpoints"))
