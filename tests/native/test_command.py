"""`python -m upsilon_jax.native`."""

import pytest

from upsilon_jax.native import __main__ as command


def test_compiles_then_finds(cache, compiler, capsys):
    assert command.main([]) == command.main([]) == 0
    (path,) = cache.iterdir()
    compiled, found = capsys.readouterr().out.splitlines()
    assert compiled.startswith("small: compiled in ") and compiled.endswith(str(path))
    assert found == f"small: found, {path}"


def test_without_a_compiler(cache, monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert command.main([]) == 1
    assert "no-such-compiler" in capsys.readouterr().out


def test_what_cannot_be_kept(cache, compiler, capsys):
    cache.parents[1].write_text("a file where a folder should be")
    assert command.main([]) == 1
    assert "cannot be kept" in capsys.readouterr().out


def test_turned_off(cache, monkeypatch, capsys):
    monkeypatch.setenv("UPSILON_NATIVE", "0")
    assert command.main([]) == 1
    assert "UPSILON_NATIVE=0" in capsys.readouterr().out
    assert not cache.exists()


def test_a_mistaken_switch(cache, monkeypatch, capsys):
    monkeypatch.setenv("UPSILON_NATIVE", "no")
    with pytest.raises(SystemExit) as caught:
        command.main([])
    assert caught.value.code == 2 and "got 'no'" in capsys.readouterr().err
