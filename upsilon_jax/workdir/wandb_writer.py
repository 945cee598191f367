"""Weights & Biases for those who use it, as a writer in the manner of clu's."""

from __future__ import annotations

import contextlib
import os
import pathlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from upsilon_jax.errors import UserError, said
from upsilon_jax.workdir.whole import make_folder, written_whole

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
        offline = "(WANDB_MODE=offline keeps a run on this disk, "
        offline += f"without {SWITCH} there is none)"
        with _named_errors(offline):
            self._run = wandb.init(
                dir=workdir,
                id=_run_id(workdir),
                name=workdir.name,
                config=dict(config),
                resume="allow",
                reinit="create_new",  # seeds side by side are runs of one process
                settings=wandb.Settings(console="off", silent=True),
            )
        # A step of our own: wandb's could not go back, as a run does that was killed.
        self._run.define_metric("*", step_metric="step")

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Numbers by name."""
        with _named_errors():
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
        with _named_errors():
            self._run.log({**counted, "step": step})

    def flush(self) -> None:
        """Nothing waits: wandb sends by itself."""

    def close(self) -> None:
        """Ends the run."""
        with _named_errors():
            self._run.finish()


@contextlib.contextmanager
def _named_errors(remedy: str = "") -> Iterator[None]:
    """What wandb or the system refuses becomes one line."""
    import wandb

    try:
        yield
    except (wandb.errors.Error, OSError) as error:
        raise UserError(f"Weights & Biases: {said(error)} {remedy}".rstrip()) from error


def _run_id(workdir: pathlib.Path) -> str:
    """Kept beside what wandb writes: set aside with it, a new run has a new one."""
    path = workdir / "wandb" / "run_id"
    if not path.exists():
        make_folder(path.parent)
        with written_whole(path) as partial:
            partial.write_text(uuid.uuid4().hex[:12], encoding="utf-8")
    return path.read_text("utf-8")
