"""How long the rest of a run will take: by kind of work, without compilation."""

from __future__ import annotations

from typing import NamedTuple

from upsilon_jax.config.schedule import Schedule
from upsilon_jax.workdir.schema import Entry

_WEIGHT = 0.3  # of the newest measurement of a step
# A step with unlabeled images has twice the rows: the guess until one was timed.
_ROWS = 2


class Took(NamedTuple):
    """Some steps of one kind, and how long they took."""

    steps: int
    seconds: float
    supervised: bool


class Pace:
    """What every kind of work costs, learned while it is done.

    Left are, with c the seconds of one of each kind,

        n_supervised · c_supervised + n_semi · c_semi
          + n_refreshes · c_refresh + n_evaluations · c_evaluate + n_epochs · c_other,

    where "other" is what the rest of an epoch takes, such as saving it.
    """

    def __init__(self, schedule: Schedule, *, uses_unlabeled: bool = True):
        """Knows nothing yet.

        Args:
          schedule: of the run.
          uses_unlabeled: False if all steps are supervised.
        """
        self.schedule = schedule
        epochs = schedule.pretrain_epochs if uses_unlabeled else schedule.epochs
        self._supervised_steps = epochs * schedule.steps_per_epoch
        self._step: dict[bool, float] = {}  # by whether it is supervised
        self._other: dict[str, float] = {}
        self._compiled: set[bool] = set()

    def expect(self, step: dict[bool, float], **other: float) -> None:
        """Takes over what was measured before the first step.

        Args:
          step: seconds of a step, by whether it is supervised.
          **other: seconds of a `refresh` and of an `evaluate`.
        """
        self._step |= step
        self._other |= other

    def steps(self, took: Took) -> None:
        """Learns from some steps."""
        kind, seconds = took.supervised, took.seconds / took.steps
        if kind in self._step:
            self._step[kind] += _WEIGHT * (seconds - self._step[kind])
        elif kind in self._compiled:
            self._step[kind] = seconds
        else:  # the first ones waited for the compiler
            self._compiled.add(kind)

    def epoch(self, entry: Entry) -> None:
        """Learns from what came between the steps.

        The least so far counts, as the first of each kind waits for the compiler.
        """
        schedule = self.schedule
        found = {}
        if schedule.refresh_due(entry.epoch):
            found["refresh"] = entry.refresh_seconds
        if schedule.evaluate_due(entry.epoch):
            found["evaluate"] = entry.evaluate_seconds
        known = entry.train_seconds + entry.refresh_seconds + entry.evaluate_seconds
        found["other"] = max(entry.epoch_seconds - known, 0.0)
        for kind, seconds in found.items():
            self._other[kind] = min(seconds, self._other.get(kind, seconds))

    def steps_left(self, step: int) -> dict[bool, int]:
        """Steps still to take after `step`, by whether they are supervised."""
        supervised = max(self._supervised_steps - step, 0)
        return {True: supervised, False: self.schedule.total_steps - step - supervised}

    def between_left(self, epoch: int) -> float:
        """Seconds between the steps, after so many finished epochs."""
        schedule = self.schedule
        epochs = range(epoch + 1, schedule.epochs + 1)
        counts = {
            "refresh": sum(map(schedule.refresh_due, epochs)),
            "evaluate": sum(map(schedule.evaluate_due, epochs)),
            "other": len(epochs),
        }
        return sum(n * self._other.get(kind, 0.0) for kind, n in counts.items())

    def seconds_of(self, supervised: bool) -> float | None:
        """Seconds of a step; guessed from the other kind if only that is known."""
        if supervised in self._step:
            return self._step[supervised]
        other = self._step.get(not supervised)
        return other and (other / _ROWS if supervised else other * _ROWS)

    def left(self, step: int, epoch: int) -> float | None:
        """Seconds until the end; None if no step has been timed.

        Args:
          step: steps that are taken.
          epoch: epochs that are finished, evaluation included.
        """
        if not self._step:
            return None
        steps = self.steps_left(step).items()
        # Where one kind is known, the other is guessed.
        in_steps = sum(count * (self.seconds_of(kind) or 0.0) for kind, count in steps)
        return in_steps + self.between_left(epoch)
