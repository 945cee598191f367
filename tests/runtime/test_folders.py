"""Where the user's cache is."""

import pathlib

import pytest

from upsilon_jax.runtime.folders import NotPrivate, private_cache, user_cache


def test_the_users_choice(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache("native") == tmp_path / "upsilon_jax" / "native"


@pytest.mark.parametrize("chosen", [None, "", "relative"])
def test_else_below_home(monkeypatch, tmp_path, chosen):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if chosen is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", chosen)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache("native") == tmp_path / ".cache" / "upsilon_jax" / "native"


def test_no_home(monkeypatch):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pathlib.Path, "home", unknown)
    with pytest.raises(OSError, match="no home"):
        user_cache("native")


def test_a_private_folder_is_made_for_the_user_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = private_cache("compiled")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_cache("compiled") == folder  # it may be there already
    folder.chmod(0o770)
    with pytest.raises(NotPrivate, match="others can write"):
        private_cache("compiled")
