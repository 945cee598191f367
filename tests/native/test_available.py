"""When C++ code is used, how it is turned off, and what is said of it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upsilon_jax import native
from upsilon_jax.errors import UserError
from upsilon_jax.kernels import confidence
from upsilon_jax.native import libraries


@pytest.fixture
def fresh(monkeypatch):
    """As in a process that has not used any."""
    monkeypatch.delenv("UPSILON_NATIVE", raising=False)
    monkeypatch.setattr(native, "_used", set())


@pytest.fixture
def unknown(cache, monkeypatch):
    """As in a process that has not looked for a library either."""
    monkeypatch.setattr(native, "_registered", {})
    monkeypatch.setattr(native, "_used", set())


def label(logits):
    return confidence._top_label(logits, jnp.int32(3))


@pytest.mark.parametrize("value, on", [("", True), ("1", True), ("0", False)])
def test_the_switch(fresh, compiler, monkeypatch, value, on):
    monkeypatch.setenv("UPSILON_NATIVE", value)
    logits = jax.random.normal(jax.random.key(0), (40, 5))
    text = jax.jit(lambda x: label(x)).lower(logits).as_text()
    assert ("upsilon_jax.rows_top_label" in text) == on
    assert native.in_use() == on
    np.testing.assert_array_equal(label(logits)[0], logits[:, :3].argmax(1))


def test_another_value_is_a_mistake(fresh, monkeypatch):
    monkeypatch.setenv("UPSILON_NATIVE", "off")
    with pytest.raises(UserError, match="UPSILON_NATIVE must be 0 .* got 'off'"):
        native.available("rows")


def test_doubles_and_accelerators_use_none(fresh, x64, monkeypatch):
    label(jnp.zeros((4, 3), jnp.float64))
    assert not native.in_use()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not native.available("rows") and not native.in_use()


def test_what_is_left_off_is_said_once_and_not_used(unknown, monkeypatch, caplog):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(native, "FUNCTIONS", {"small": (), "other": ()})
    (libraries.HERE / "other.cc").touch()
    assert not any(native.available(name) for name in ("small", "other", "small"))
    assert not native.in_use()
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "left off" in record.message
    assert "no-such-compiler" in record.message and "\n" not in record.message


def test_threads_that_trace_together_compile_once(unknown, monkeypatch):
    calls, begun = [], threading.Barrier(4)

    def slowly(name):
        calls.append(name)
        time.sleep(0.05)
        return True

    def ask(name):
        begun.wait()
        return native.available(name)

    monkeypatch.setattr(native, "_register", slowly)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, ["small"] * 4))
    assert calls == ["small"] and native.in_use()
