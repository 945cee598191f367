"""Where a run stands: what its checkpoints hold, and who is told of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from upsilon_jax.training.setup import Run
from upsilon_jax.types import TrainState
from upsilon_jax.workdir.checkpoint import Checkpoints
from upsilon_jax.workdir.observer import Observer


@dataclasses.dataclass
class Progress:
    """Where a run stands. Its checkpoint is `state` and, as JSON, the rest."""

    state: TrainState
    step: int = 0
    history: list[dict] = dataclasses.field(default_factory=list)
    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    resumed_from: list[int] = dataclasses.field(default_factory=list)

    @property
    def number(self) -> int:
        """The number of its checkpoint.

        At the end of an epoch there may be two with the same step: before and after
        the evaluation.
        """
        return self.step + len(self.history)

    def record(self) -> dict:
        """What a checkpoint keeps beside the arrays."""
        kept = ("step", "history", "sums", "resumed_from")
        return {name: getattr(self, name) for name in kept}


class Trainee:
    """A run in training, with its checkpoints and its observer."""

    def __init__(
        self,
        run: Run,
        progress: Progress,
        checkpoints: Checkpoints,
        observer: Observer,
    ):
        self.run, self.progress = run, progress
        self.observer = observer
        self.diverged_step: int | None = None
        self._checkpoints = checkpoints
        self._saved = progress.number if progress.resumed_from else None

    @property
    def active(self) -> bool:
        """Whether there are steps to take, or an epoch to finish."""
        whole = len(self.progress.history) >= self.run.schedule.epochs
        return not whole and self.diverged_step is None

    @property
    def epoch_is_over(self) -> bool:
        """Whether all steps of the current epoch are taken."""
        epoch = len(self.progress.history) + 1
        return self.progress.step == epoch * self.run.schedule.steps_per_epoch

    def save(self) -> None:
        """Writes a checkpoint, unless the newest one is just this."""
        if self._saved != self.progress.number:
            self._checkpoints.save(
                self.progress.number, self.progress.state, self.progress.record()
            )
            self._saved = self.progress.number

    def log(self, steps: Iterable[Mapping[str, float]]) -> None:
        """Adds up the metrics of the last steps; a loss that is no number ends it."""
        steps = list(steps)
        first = self.progress.step - len(steps) + 1
        for step, metrics in enumerate(steps, start=first):
            if not np.isfinite(metrics["loss"]):
                self.diverged_step = step
                self.observer.say(f"diverged: the loss is not finite at step {step}")
                return
            for name, value in metrics.items():
                self.progress.sums[name] = self.progress.sums.get(name, 0.0) + value
        self.observer.steps(self.progress.step, steps[-1])
