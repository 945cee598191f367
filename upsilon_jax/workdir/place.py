"""Where a workdir may be, and the runs that are in it."""

from __future__ import annotations

import os
import pathlib
import re

from upsilon_jax.config import ConfigDict, of_seed
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


def runs_of(
    config: ConfigDict, workdir: pathlib.Path
) -> dict[pathlib.Path, ConfigDict]:
    """The folder and the config of every seed, in order."""
    count = config.train.num_seeds
    if count == 1:
        return {workdir: config}
    seeds = range(config.seed, config.seed + count)
    return {workdir / f"seed_{seed}": of_seed(config, seed) for seed in seeds}
