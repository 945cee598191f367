"""Signals wait for training while it listens, and act as usual otherwise."""

import signal

import pytest

from upsilon_jax.runtime import interrupts
from upsilon_jax.runtime.interrupts import Interrupted


@pytest.fixture
def installed():
    """Our handlers, and SIGTERM harmless beneath them."""
    seen, signals = [], (signal.SIGTERM, signal.SIGINT)
    before = {signum: signal.getsignal(signum) for signum in signals}
    installed_before = dict(interrupts._Signals.previous)
    interrupts._Signals.previous.clear()
    signal.signal(signal.SIGTERM, lambda signum, frame: seen.append(signum))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.install()
    yield seen
    interrupts._Signals.previous.clear()
    interrupts._Signals.previous.update(installed_before)
    for signum, handler in before.items():
        signal.signal(signum, handler)


def test_the_first_signal_waits_for_a_look(installed):
    with interrupts.listening():
        interrupts.check()  # nothing has come
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted, match="stopped by SIGTERM") as error:
            interrupts.check()
        assert error.value.exit_code == 143
        with pytest.raises(Interrupted):
            interrupts.check_together()
        assert not installed
    with interrupts.listening():
        interrupts.check()  # the request was for those who listened then


def test_a_second_signal_acts_as_usual(installed):
    with interrupts.listening():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert installed == [signal.SIGTERM]


def test_a_signal_that_the_parent_passes_on_as_well_counts_once(installed, monkeypatch):
    monkeypatch.setattr(interrupts._Signals, "seconds_for_both", 0.0)  # put back after
    interrupts.expect_both()
    with interrupts.listening():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert not installed and interrupts.requested() == signal.SIGTERM
        monkeypatch.setattr(interrupts._Signals, "time", float("-inf"))  # long ago
        signal.raise_signal(signal.SIGTERM)
        assert installed == [signal.SIGTERM]


def test_where_nobody_listens_signals_act_as_usual(installed):
    signal.raise_signal(signal.SIGTERM)
    assert installed == [signal.SIGTERM]
    with pytest.raises(KeyboardInterrupt) as error:
        signal.raise_signal(signal.SIGINT)
    assert not isinstance(error.value, Interrupted)
    with interrupts.listening():  # the handler is still there
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted):
            interrupts.check()


def test_one_who_listens_may_be_asked_without_a_signal():
    with interrupts.listening():
        interrupts.request(signal.SIGINT)
        with pytest.raises(Interrupted, match="SIGINT"):
            interrupts.check()
