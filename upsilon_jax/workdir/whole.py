"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

from upsilon_jax.errors import WorkdirError


@contextlib.contextmanager
def written_whole(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A place to write to; it becomes `path` when the block ends without an error.

    Raises:
      WorkdirError: nothing can be written there; one line says why.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        os.replace(partial, path)
    except OSError as error:
        reason = error.strerror or error
        raise WorkdirError(f"{path}: cannot be written ({reason})") from error
    finally:
        partial.unlink(missing_ok=True)
