"""A small C++ file to compile, and a user who has kept no library yet."""

import pytest

from upsilon_jax import native
from upsilon_jax.native import libraries

SOURCE = 'extern "C" int answer() { return 42; }'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of libraries, not there yet; `small.cc` is the file to compile."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "small.cc").write_text(SOURCE)
    monkeypatch.setattr(libraries, "HERE", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UPSILON_NATIVE", raising=False)
    monkeypatch.setattr(native, "FUNCTIONS", {"small": ()})
    forget()
    yield tmp_path / "cache" / "upsilon_jax" / "native"
    forget()


def forget():
    """What is said once in a process may be said again."""
    libraries._give_notice.cache_clear()
    native._warn.cache_clear()


@pytest.fixture
def fake_compiler(tmp_path, monkeypatch):
    """Makes a shell script the compiler; the last argument is the file to write."""

    def make(script):
        path = tmp_path / "fake-c++"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setenv("CXX", str(path))
        libraries._macros.cache_clear()

    yield make
    libraries._macros.cache_clear()
