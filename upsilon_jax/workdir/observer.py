"""What a person sees while a run goes on: a progress bar, or lines, and TensorBoard."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import time
from collections.abc import Mapping

import numpy as np
import tqdm

from upsilon_jax.types import PseudoLabels
from upsilon_jax.workdir.schema import Entry, plain

_SECONDS_BETWEEN_LINES = 10  # where there is no terminal


class Observer:
    """Shows a run's progress and writes its scalars; knows nothing of training."""

    def __init__(
        self,
        workdir: pathlib.Path,
        total_steps: int,
        first_step: int,
        *,
        active: bool = True,
        label: str = "",
    ):
        """Starts to observe.

        Args:
          workdir: gets the folder `tensorboard`.
          total_steps: of the whole run.
          first_step: where it starts, or goes on.
          active: False for all but one of several processes: it stays silent.
          label: which of several runs this is.
        """
        self._active, self._label = active, label and f"{label}: "
        self._bar = tqdm.tqdm(
            desc=label or None,
            total=total_steps,
            initial=first_step,
            unit="step",
            file=sys.stderr,
            disable=not (active and sys.stderr.isatty()),
            dynamic_ncols=True,
            smoothing=0.1,
        )
        self._total = total_steps
        self._clock, self._first = time.monotonic(), first_step
        self._last_line = -np.inf
        self._loss: float | None = None
        self._entry: Entry | None = None  # of the last epoch
        self._writer = self._open_writer(workdir) if active else None

    def say(self, line: str) -> None:
        """A line for the person, above the bar."""
        if self._active:
            self._bar.write(self._label + line, file=sys.stderr)

    def steps(self, step: int, scalars: Mapping[str, float]) -> None:
        """Progress within an epoch."""
        self._loss = scalars["loss"]
        self._show(step)
        if self._writer:
            tagged = {f"train/{name}": value for name, value in scalars.items()}
            self._writer.write_scalars(step, tagged)

    def epoch(self, entry: Entry) -> None:
        """An entry of the history."""
        previous, self._entry = self._entry, entry
        for name in ("accuracy", "foreign_share") if previous else ():
            if getattr(entry, name) is None:  # not measured: show the last one
                last = {name: getattr(previous, name)}
                self._entry = self._entry._replace(**last)
        self._show(entry.step, last=entry.step == self._total)
        if self._writer:
            numbers = {f"epoch/{key}": value for key, value in plain(entry).items()}
            self._writer.write_scalars(entry.step, numbers)
            self._writer.flush()

    def pseudo_labels(self, step: int, labels: PseudoLabels, num_outputs: int) -> None:
        """The histogram of the labels in P."""
        chosen = np.asarray(labels.label)[np.asarray(labels.weight) > 0]
        if self._writer and chosen.size:
            self._writer.write_histograms(
                step, {"pseudo_labels": chosen}, {"pseudo_labels": num_outputs}
            )

    def close(self) -> None:
        """Ends the bar and the event file."""
        self._bar.close()
        if self._writer:
            self._writer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _show(self, step: int, *, last: bool = False) -> None:
        shown = status(self._loss, self._entry)
        self._bar.set_postfix_str(shown, refresh=False)
        self._bar.update(step - self._bar.n)
        now = time.monotonic()
        due = last or now > self._last_line + _SECONDS_BETWEEN_LINES
        if self._bar.disable and due:
            self._last_line = now
            spent = now - self._clock
            left = spent * (self._total - step) / max(step - self._first, 1)
            self.say(
                f"step {step}/{self._total}  {shown}  "
                f"{tqdm.tqdm.format_interval(left)} left"
            )

    def _open_writer(self, workdir: pathlib.Path):
        needed = ("tensorflow", "tensorboard", "clu")
        if not all(importlib.util.find_spec(name) for name in needed):
            self.say("TensorBoard is off: it needs tensorflow (pip install '.[cpu]')")
            return None
        from clu import metric_writers

        return metric_writers.AsyncWriter(
            metric_writers.SummaryWriter(str(workdir / "tensorboard"))
        )


def status(loss: float | None, entry: Entry | None) -> str:
    """The few values worth watching, in one short text."""
    labels = entry and entry.labels
    values = (
        ("epoch {:d}", entry and entry.epoch),
        ("loss {:.3f}", loss),
        ("accuracy {:.1%}", entry and entry.accuracy),
        ("N {:d}", labels and labels.per_class),
        ("M {:d}", labels and labels.num_explored),
        ("foreign ≈ {:.0%}", entry and entry.foreign_share),
        ("OOD in P {:.0%}", labels and labels.ood_share),
    )
    return "  ".join(form.format(v) for form, v in values if v is not None)
