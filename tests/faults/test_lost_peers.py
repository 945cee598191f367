"""Two processes of one run: one is lost, and the run goes on with one, and with two."""

import json
import os
import signal
import time

import pytest

from tests.faults.injected import Injected
from tests.faults.processes import finish, start, wait_for
from tests.training.test_processes import free_port

pytestmark = pytest.mark.slow

TINY = (
    "--config=digits:upsilon",
    "--config.train.epochs=10",
    "--config.train.pretrain_epochs=2",
    "--config.train.save_epochs=2",
    "--config.train.batch_size=32",
    "--config.data.num_unlabeled=96",
    "--config.data.labels_per_class=5",
    "--config.data.augmentation=none",
    "--config.model.depth=10",
    "--config.model.width=1",
    "--config.method.threshold=0.35",
)
LOST = [(1, "auto"), (0, "stream")]  # which process, and where the images are
INJECTED = {
    "test_a_lost_process_is_a_line_and_the_run_goes_on_with_one_and_two": Injected(
        survived=len(LOST)
    ),
    "test_a_signal_to_one_stops_both_and_they_end_as_if_never_stopped": Injected(1),
}


def start_two(*args):
    """Both find each other by flags alone."""
    where = f"--coordinator=127.0.0.1:{free_port()}"
    return [
        start(*args, where, "--num_processes=2", f"--process_index={index}")
        for index in (0, 1)
    ]


def start_one(*args):
    """As many devices, and so the same program, in one process."""
    return start(*args, env={**os.environ, "JAX_NUM_CPU_DEVICES": "2"})


def saved(workdir):
    """The number of the newest checkpoint that is whole."""
    found = [int(p.name) for p in workdir.glob("checkpoints/*") if p.name.isdecimal()]
    return max(found, default=-1)


def result(workdir):
    return json.loads((workdir / "result.json").read_text())


def losses(workdir):
    return [entry["labeled_loss"] for entry in result(workdir)["history"]]


@pytest.mark.parametrize(("lost", "residency"), LOST)
def test_a_lost_process_is_a_line_and_the_run_goes_on_with_one_and_two(
    tmp_path, lost, residency
):
    args = (*TINY, f"--config.data.residency={residency}")
    run = (*args, f"--workdir={tmp_path / 'run'}")
    both = start_two(*run)
    wait_for(lambda: saved(tmp_path / "run") > 0, both[0])
    both[lost].kill()
    begin = time.monotonic()
    code, _, err = finish(both[1 - lost])
    assert time.monotonic() - begin < 30
    assert code == 4 and "Traceback" not in err, err
    assert err.splitlines()[-1].startswith(f"main.py: lost process {lost}: ")
    finish(both[lost])

    first = saved(tmp_path / "run")
    one = start_one(*run)
    wait_for(lambda: saved(tmp_path / "run") > first, one)
    one.send_signal(signal.SIGTERM)
    code, _, err = finish(one)
    assert code == 143 and "saved at step" in err, err

    both = start_two(*run)
    assert [finish(process)[0] for process in both] == [0, 0]
    assert len(result(tmp_path / "run")["resumed_from"]) == 2

    whole = (*args, f"--workdir={tmp_path / 'whole'}")
    assert finish(start_one(*whole))[0] == 0
    # Sums over processes are rounded in another order than sums over devices.
    assert losses(tmp_path / "run") == pytest.approx(
        losses(tmp_path / "whole"), rel=0.02
    )


def test_a_signal_to_one_stops_both_and_they_end_as_if_never_stopped(tmp_path):
    run = (*TINY, f"--workdir={tmp_path / 'run'}")
    both = start_two(*run)
    wait_for(lambda: saved(tmp_path / "run") > 0, both[0])
    both[1].send_signal(signal.SIGTERM)
    for code, _, err in map(finish, both):
        assert code == 143 and "stopped by SIGTERM" in err, err
    for workdir in ("run", "whole"):
        both = start_two(*TINY, f"--workdir={tmp_path / workdir}")
        assert [finish(process)[0] for process in both] == [0, 0]
    stopped, whole = result(tmp_path / "run"), result(tmp_path / "whole")
    assert stopped["resumed_from"] and not whole["resumed_from"]
    assert stopped["params_digest"] == whole["params_digest"]
