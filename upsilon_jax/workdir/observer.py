"""What a person sees while a run goes on: a progress bar, or lines, and curves."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tqdm

from upsilon_jax.errors import UserError
from upsilon_jax.runtime import messages
from upsilon_jax.types import PseudoLabels
from upsilon_jax.workdir import wandb_writer
from upsilon_jax.workdir.pace import Pace, Took
from upsilon_jax.workdir.records import plain
from upsilon_jax.workdir.schema import Entry
from upsilon_jax.workdir.tensorboard_writer import TensorBoardWriter

_SECONDS_BETWEEN_LINES = 10  # where there is no terminal
# tqdm's own rate and time left would count compilation, and know one kind of step.
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


def say(line: str, label: str = "") -> None:
    """A line for the person, above any bar; `label`: which of several runs."""
    if messages.are_shown():
        tqdm.tqdm.write(f"{label}: {line}" if label else line, file=sys.stderr)


class Observer:
    """Shows a run's progress and writes its scalars; knows nothing of training."""

    def __init__(
        self,
        workdir: pathlib.Path,
        pace: Pace,
        first_step: int,
        *,
        config: Mapping[str, Any] | None = None,
        active: bool = True,
        label: str = "",
    ):
        """Starts to observe.

        Args:
          workdir: gets the folder `tensorboard`.
          pace: how long the run is, and how long what is left of it will take.
          first_step: where it starts, or goes on.
          config: of the run, for writers that keep it.
          active: False for all but one of several processes: it stays silent.
          label: which of several runs this is.
        """
        self._active, self._label = active, label
        self._bar = tqdm.tqdm(
            desc=label or None,
            total=pace.schedule.total_steps,
            initial=first_step,
            unit="step",
            file=sys.stderr,
            disable=not (active and sys.stderr.isatty() and messages.are_shown()),
            dynamic_ncols=True,
            bar_format=_BAR,
        )
        # The clock of the day may be set back, and the bar would wait for it; this one
        # may not.
        self._bar._time = time.monotonic
        self._bar.start_t = self._bar.last_print_t = time.monotonic()
        self.pace = pace
        self._last_line = -np.inf
        self._loss: float | None = None
        self._entry: Entry | None = None  # of the last epoch
        self._writers = self._open_writers(workdir, config or {}) if active else []

    def say(self, line: str) -> None:
        """A line for the person, above the bar."""
        if self._active:
            say(line, self._label)

    def steps(self, step: int, scalars: Mapping[str, float], took: Took) -> None:
        """Progress within an epoch; `took` is the time since the last report."""
        self._loss = scalars["loss"]
        self.pace.steps(took)
        self._show(step, epoch=(step - 1) // self.pace.schedule.steps_per_epoch)
        tagged = {f"train/{name}": value for name, value in scalars.items()}
        self._write(lambda writer: writer.write_scalars(step, tagged))

    def epoch(self, entry: Entry) -> None:
        """An entry of the history."""
        previous, self._entry = self._entry, entry
        for name in ("accuracy", "foreign_share") if previous else ():
            if getattr(entry, name) is None:  # not measured: show the last one
                last = {name: getattr(previous, name)}
                self._entry = self._entry._replace(**last)
        self.pace.epoch(entry)
        self._show(entry.step, epoch=entry.epoch)
        numbers = {
            f"epoch/{key}": value
            for key, value in plain(entry).items()
            if not isinstance(value, list)  # counts of clusters are no scalar
        }
        self._write(lambda writer: writer.write_scalars(entry.step, numbers))
        self._write(lambda writer: writer.flush())

    def pseudo_labels(self, step: int, labels: PseudoLabels, num_outputs: int) -> None:
        """The histogram of the labels in P."""
        chosen = np.asarray(labels.label)[np.asarray(labels.weight) > 0]
        if chosen.size:
            told = {"pseudo_labels": chosen}, {"pseudo_labels": num_outputs}
            self._write(lambda writer: writer.write_histograms(step, *told))

    def close(self) -> None:
        """Ends the bar and what is written."""
        self._bar.close()
        self._write(lambda writer: writer.close())

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _write(self, tell: Callable[[Any], None]) -> None:
        """Tells every writer; one that cannot write is left out from then on.

        Curves are not worth a run: what is worth one says so when it is saved.
        """
        for writer in list(self._writers):
            try:
                tell(writer)
            except UserError as error:
                self._writers.remove(writer)
                self.say(f"warning: {error}; the run goes on without these curves")

    def _show(self, step: int, *, epoch: int) -> None:
        """Shows where the run stands, `epoch` epochs being finished."""
        left, shown = self.pace.left(step, epoch), status(self._loss, self._entry)
        if left is not None:
            shown = f"{shown}  {tqdm.tqdm.format_interval(left)} left"
        self._bar.set_postfix_str(shown, refresh=False)
        self._bar.update(step - self._bar.n)
        now, schedule = time.monotonic(), self.pace.schedule
        due = now > self._last_line + _SECONDS_BETWEEN_LINES
        if self._bar.disable and (due or epoch == schedule.epochs):
            self._last_line = now
            self.say(f"step {step}/{schedule.total_steps}  {shown}")

    def _open_writers(self, workdir: pathlib.Path, config: Mapping[str, Any]) -> list:
        """Writers in the manner of clu's: TensorBoard, and wandb if it is wanted."""
        found: list[Any] = []
        if self._has("TensorBoard", "cpu", "tensorflow", "tensorboard", "clu"):
            found.append(TensorBoardWriter(workdir / "tensorboard"))
        if wandb_writer.is_wanted() and self._has("Weights & Biases", "wandb", "wandb"):
            found.append(wandb_writer.WandbWriter(workdir, config))
        return found

    def _has(self, what: str, extra: str, *packages: str) -> bool:
        """Whether all are installed; says so if one is not."""
        for package in packages:
            if not importlib.util.find_spec(package):
                install = f"pip install 'upsilon_jax[{extra}]'"
                self.say(f"{what} is off: it needs {package} ({install})")
                return False
        return True


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
