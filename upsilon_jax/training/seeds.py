"""One run, or several that differ in their seed: a layer around the loop.

Where there are as many devices as seeds, every seed has its own and a thread that
trains it there: the steps of all are under way at the same time. Else they are trained
one after the other, with the same compiled programs: on a single device `vmap` over
seeds is slower than separate calls (`python -m benchmarks --rows=12`).
"""

from __future__ import annotations

import pathlib
import signal
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

import ml_collections

from upsilon_jax.config import validate
from upsilon_jax.runtime import interrupts, sharding
from upsilon_jax.training.loop import train_run
from upsilon_jax.training.setup import Shared
from upsilon_jax.workdir.place import local_path, runs_of
from upsilon_jax.workdir.records import plain
from upsilon_jax.workdir.schema import Result
from upsilon_jax.workdir.summary import of_seeds


def train(
    config: ml_collections.ConfigDict,
    workdir: str | pathlib.Path,
    *,
    override_config: bool = False,
    start_over: bool = False,
    pretrained: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Trains as the config says, or goes on where the workdir's checkpoint stands.

    It leaves the process as it is: `upsilon_jax.runtime.setup` makes it faster and lets
    Ctrl-C wait for the next step.

    Args:
      config: see `upsilon_jax/config`.
      workdir: gets checkpoints, TensorBoard events and the files that `docs/result.md`
        lists; with several seeds, each in a folder `seed_S` of its own.
      override_config: goes on although the stored config differs, in fields that may
        change under a checkpoint.
      start_over: sets aside what is in the workdir, in a folder `earlier` there, and
        begins at step 0.
      pretrained: a folder for supervised epochs that runs of a sweep have in common.

    Returns:
      The contents of `result.json`; with several seeds those of `schema.Seeds`.

    Raises:
      UserError: one line for the user.
      KeyboardInterrupt: somebody wants it to stop; it is saved.
    """
    validate(config)
    workdir = local_path(workdir)
    with interrupts.listening():
        told: dict[str, Any] = {
            "override_config": override_config,
            "start_over": start_over,
            "pretrained": pretrained,
        }
        if config.train.num_seeds == 1:
            return plain(train_run(config, workdir, **told))
        return plain(of_seeds(_train_seeds(config, workdir, **told)))


def _train_seeds(config, workdir: pathlib.Path, **told: Any) -> list[Result]:
    """The results of all seeds, in order."""
    shared, runs = Shared(), runs_of(config, workdir)

    def train_seed(folder: pathlib.Path, mesh=None) -> Result:
        return train_run(
            runs[folder],
            folder,
            mesh=mesh,
            shared=shared,
            label=f"seed {runs[folder].seed}",
            **told,
        )

    meshes = sharding.seed_meshes(len(runs))
    if not meshes:
        return [train_seed(folder) for folder in runs]
    with ThreadPoolExecutor(len(runs), thread_name_prefix="seed") as threads:
        pairs = zip(runs, meshes, strict=True)
        return _wait([threads.submit(train_seed, *pair) for pair in pairs])


def _wait(futures: list[Future]) -> list[Result]:
    """The results of threads; if one fails, or on Ctrl-C, all are stopped and saved."""
    try:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()  # raises what it raised
    except BaseException:
        interrupts.request(signal.SIGINT)
        raise
    return [future.result() for future in futures]
