"""Where the user's files are."""

from __future__ import annotations

import os
import pathlib
import stat


class NotPrivate(OSError):
    """A folder or file that somebody else could have written."""


def user_cache(name: str) -> pathlib.Path:
    """The folder `name` of what this package keeps and can make again.

    It is in `$XDG_CACHE_HOME/upsilon_jax`, or `~/.cache/upsilon_jax`, and may not exist
    yet. An OSError if the user has no home.
    """
    chosen = pathlib.Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not chosen.is_absolute():  # the XDG specification passes over such a path
        try:
            chosen = pathlib.Path.home() / ".cache"
        except RuntimeError as error:
            raise OSError("there is no home directory") from error
    return chosen / "upsilon_jax" / name


def private_cache(name: str) -> pathlib.Path:
    """`user_cache(name)` for code, made if need be: it must be the user's alone.

    Who can write to it can run code in the processes that read it. An OSError if it
    cannot be made, a NotPrivate if others own it or can write to it.
    """
    folder = user_cache(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    check_private(folder)
    return folder


def check_private(path: pathlib.Path) -> None:
    """Of a link, both it and what it leads to must be the user's."""
    link, status = path.lstat(), path.stat()
    if {link.st_uid, status.st_uid} != {os.geteuid()}:
        raise NotPrivate(f"{path} belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivate(f"others can write to {path}; delete it, or chmod go-w it")
