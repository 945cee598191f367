"""Where the user's files are."""

from __future__ import annotations

import os
import pathlib


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
