"""Where a workdir may be."""

from __future__ import annotations

import os
import pathlib
import re

from upsilon_jax.errors import WorkdirError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # pathlib makes gs:/x of gs://x


def local_path(path: str | os.PathLike) -> pathlib.Path:
    """The path of a workdir; a WorkdirError if it is in a bucket.

    Locks, and files that are written whole or not at all, need a file system.
    """
    if _URL.match(str(path)):
        raise WorkdirError(
            f"{path}: a workdir must be a folder of this machine; buckets can be "
            "mounted as one (gcsfuse, s3fs), or copied to when the run has ended"
        )
    return pathlib.Path(os.path.expanduser(path))
