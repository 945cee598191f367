"""Weights & Biases for those who use it, as a writer in the manner of clu's."""

from __future__ import annotations

import os
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from upsilon_jax.errors import UserError

SWITCH = "WANDB_PROJECT"  # the project; wandb reads it and its other variables itself


def is_wanted() -> bool:
    """Whether somebody has named a project."""
    return bool(os.environ.get(SWITCH))


class WandbWriter:
    """The part of `clu.metric_writers.MetricWriter` that an `Observer` calls."""

    def __init__(self, workdir: pathlib.Path, config: Mapping[str, Any]):
        """Begins a run of wandb, or goes on with that of the workdir.

        Raises:
          UserError: wandb cannot begin; nobody is logged in, for example.
        """
        import wandb

        self._histogram = wandb.Histogram
        try:
            self._run = wandb.init(
                dir=workdir,
                id=_run_id(workdir),
                name=workdir.name,
                config=dict(config),
                resume="allow",
                reinit="create_new",  # seeds side by side are runs of one process
                settings=wandb.Settings(console="off", silent=True),
            )
        except wandb.errors.Error as error:
            raise UserError(
                f"Weights & Biases: {error} (WANDB_MODE=offline keeps a run on this "
                f"disk, without {SWITCH} there is none)"
            ) from error
        # A step of our own: wandb's could not go back, as a run does that was killed.
        self._run.define_metric("*", step_metric="step")

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Numbers by name."""
        self._run.log({**scalars, "step": step})

    def write_histograms(
        self,
        step: int,
        arrays: Mapping[str, np.ndarray],
        num_buckets: Mapping[str, int],
    ) -> None:
        """Values by name, counted in so many buckets."""
        counted = {
            name: self._histogram(np_histogram=np.histogram(values, num_buckets[name]))
            for name, values in arrays.items()
        }
        self._run.log({**counted, "step": step})

    def flush(self) -> None:
        """Nothing waits: wandb sends by itself."""

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


def _run_id(workdir: pathlib.Path) -> str:
    """Kept beside what wandb writes: set aside with it, a new run has a new one."""
    path = workdir / "wandb" / "run_id"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex[:12], encoding="utf-8")
    return path.read_text("utf-8")
