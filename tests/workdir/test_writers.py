"""A writer of curves that cannot write is left out, and the run goes on."""

import sys
import threading
import types

import numpy as np
import pytest

from tests.faults.test_workdir import full_disk
from tests.workdir.test_pace import SCHEDULE, entry
from upsilon_jax.errors import WorkdirError
from upsilon_jax.types import PseudoLabels
from upsilon_jax.workdir.observer import Observer
from upsilon_jax.workdir.pace import Pace, Took
from upsilon_jax.workdir.tensorboard_writer import TensorBoardWriter

CALLS = ("write_scalars", "write_histograms", "flush", "close")
LABELS = PseudoLabels(np.array([0, 1]), np.array([1.0, 1.0]))


class Fake:
    """Remembers what it is told, and fails at one kind of call."""

    def __init__(self, fails=None, error=None):
        self.told = []
        for name in CALLS:
            setattr(self, name, self._call(name, error if name == fails else None))

    def _call(self, name, error):
        def call(*args):
            self.told.append(name)
            if error:
                raise error

        return call


@pytest.mark.parametrize("fails", CALLS)
def test_one_that_fails_is_named_once_and_left_out(
    tmp_path, monkeypatch, capsys, fails
):
    bad, good = Fake(fails, WorkdirError("curves: no room")), Fake()
    monkeypatch.setattr(Observer, "_open_writers", lambda *_: [bad, good])
    with Observer(tmp_path, Pace(SCHEDULE), 20) as observer:
        for step in (21, 30):
            observer.steps(step, {"loss": 1.0}, Took(1, 1.0, supervised=False))
            observer.pseudo_labels(step, LABELS, 3)
            observer.epoch(entry(step, accuracy=0.5))
    each = ["write_scalars", "write_histograms", "write_scalars", "flush"]
    assert good.told == [*each, *each, "close"]
    assert bad.told.count(fails) == 1 and bad.told[-1] == fails
    said = capsys.readouterr().err
    line = "warning: curves: no room; the run goes on without these curves"
    assert said.count("curves") == 2 and line in said.splitlines()


def test_a_fault_of_a_writer_keeps_its_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Observer, "_open_writers", lambda *_: [Fake("close", RuntimeError("a bug"))]
    )
    with pytest.raises(RuntimeError, match="a bug"):
        Observer(tmp_path, Pace(SCHEDULE), 20).close()


class Refused(Exception):
    """Plays tensorflow's OpError."""


@pytest.fixture
def tensorboard(monkeypatch, tmp_path):
    """Makes a writer whose events go to a `Fake`."""

    def make(events):
        writers = types.SimpleNamespace(SummaryWriter=lambda folder: events)
        errors = types.SimpleNamespace(OpError=Refused)
        for name, module in {
            "clu": types.SimpleNamespace(metric_writers=writers),
            "clu.metric_writers": writers,
            "tensorflow": types.SimpleNamespace(errors=errors),
            "tensorflow.errors": errors,
        }.items():
            monkeypatch.setitem(sys.modules, name, module)
        return TensorBoardWriter(tmp_path / "tensorboard")

    return make


def test_events_are_written_in_order_by_a_thread(tensorboard):
    events = Fake()
    writer = tensorboard(events)
    threads = []
    events.write_histograms = lambda *_: threads.append(threading.current_thread())
    writer.write_scalars(1, {"loss": 1.0})
    writer.write_histograms(1, {"labels": np.arange(3)}, {"labels": 3})
    writer.flush()
    assert events.told == ["write_scalars", "flush"]
    assert threads[0] is not threading.current_thread()
    writer.close()
    assert events.told[-1] == "close" and not threads[0].is_alive()


@pytest.mark.parametrize("fails", ["write_scalars", "flush", "close"])
def test_what_the_disk_refuses_is_one_line_and_nothing_more_is_written(
    tensorboard, fails
):
    text = "{{node}} events.v2; No space left on device\n\tCould not flush [Op:Flush]"
    events = Fake(fails, Refused(text))
    writer = tensorboard(events)
    with pytest.raises(WorkdirError) as error:
        writer.write_scalars(1, {"loss": 1.0})
        writer.flush()
        writer.close()
    assert str(error.value).endswith(
        "tensorboard: cannot be written (No space left on device)"
    )
    assert events.told[-1] == fails
    for call in (lambda: writer.write_scalars(2, {"loss": 1.0}), writer.close):
        with pytest.raises((WorkdirError, RuntimeError)):  # closed, it takes no more
            call()
    assert events.told[-1] == fails


@pytest.mark.slow
def test_a_real_file_of_events_on_a_full_disk(tmp_path):
    pytest.importorskip("tensorflow")
    writer = TensorBoardWriter(tmp_path / "tensorboard")
    writer.write_scalars(1, {"loss": 1.0})
    writer.flush()
    writer.write_scalars(2, {"loss": 1.0})
    with full_disk(), pytest.raises(WorkdirError, match=r"written \(File too large\)$"):
        writer.flush()
