"""Where a run stands: all that changes while it goes on."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax

from upsilon_jax.config import Schedule
from upsilon_jax.errors import WorkdirError
from upsilon_jax.types import TrainState
from upsilon_jax.workdir.checkpoint import Checkpoint
from upsilon_jax.workdir.records import parse_history, plain
from upsilon_jax.workdir.schema import Entry


@dataclasses.dataclass
class Progress:
    """Where a run stands. Its checkpoint is `state` and, as JSON, the rest."""

    state: TrainState
    step: int = 0  # optimizer steps taken
    history: list[Entry] = dataclasses.field(default_factory=list)
    # of the metrics over the steps of an epoch that is not finished
    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    resumed_from: list[int] = dataclasses.field(default_factory=list)
    diverged_step: int | None = None  # the first whose loss is not finite; never saved

    @property
    def epoch(self) -> int:
        """Epochs that are finished, evaluation included."""
        return len(self.history)

    @property
    def number(self) -> int:
        """The number of its checkpoint.

        At the end of an epoch there may be two with the same step: before and after
        the evaluation.
        """
        return self.step + len(self.history)

    def can_be_saved(self) -> bool:
        """Whether a run could go on from here.

        Ctrl-C may come in the middle of a step, which takes the arrays of the state
        away before it gives new ones back.
        """
        if not self.step or self.diverged_step is not None:
            return False
        arrays = jax.tree.leaves(self.state)
        if any(isinstance(x, jax.Array) and x.is_deleted() for x in arrays):
            return False
        return int(self.state.step) == self.step

    def finish_epoch(self, state: TrainState, entry: Entry) -> None:
        """Adds an epoch, in one call that Ctrl-C cannot divide."""
        vars(self).update(state=state, sums={}, history=[*self.history, entry])

    def record(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the arrays."""
        return {
            "step": self.step,
            "history": plain(self.history),
            "sums": self.sums,
            "resumed_from": self.resumed_from,
        }


def check_fits(progress: Progress, schedule: Schedule, workdir: pathlib.Path) -> None:
    """Raises a WorkdirError if a run is already longer than it is to be."""
    if progress.step > schedule.total_steps or progress.epoch > schedule.epochs:
        raise WorkdirError(
            f"{workdir}: the run there has taken {progress.step} steps, more than the "
            f"{schedule.total_steps} of train.epochs={schedule.epochs}; give more "
            "epochs, or another --workdir"
        )


def resume(checkpoint: Checkpoint) -> Progress:
    """Where the run stood when it was saved; from now on it counts as resumed."""
    record = dict(checkpoint.record)
    step = record["step"]
    return Progress(
        state=checkpoint.state,
        step=step,
        history=parse_history(record["history"], f"checkpoint {checkpoint.number}"),
        sums=record["sums"],
        resumed_from=[*record["resumed_from"], step],
    )
