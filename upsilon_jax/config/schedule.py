"""The clock of a run: the only place that turns epochs into steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from upsilon_jax.config.rules import MOST_COUNT
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import Method

# Where `train.eval_epochs` is None: evaluations of a run with as many epochs or more.
_EVALUATIONS = 50


class Schedule(NamedTuple):
    """How long a run is, and what is due after which epoch."""

    steps_per_epoch: int
    epochs: int
    pretrain_epochs: int
    refresh_epochs: int | None  # None: the method is never refreshed
    save_epochs: int
    eval_epochs: int
    report_epochs: int

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.epochs

    def refresh_due(self, epoch: int) -> bool:
        """Whether the labels are renewed after `epoch` epochs (Algorithm 1, line 7).

        Differs from the paper: it prints `e ≤ E_pt`, which would freeze P for ever when
        training with it begins. Always due at E_pt, so that no PL epoch lacks labels;
        never after the last epoch, where nothing would use them.
        """
        used = self.pretrain_epochs <= epoch < self.epochs
        if self.refresh_epochs is None or not used:
            return False
        return epoch == self.pretrain_epochs or epoch % self.refresh_epochs == 0

    def evaluate_due(self, epoch: int) -> bool:
        """Whether test accuracies are measured after `epoch` epochs.

        Always in the last `report_epochs`, whose mean is the reported accuracy.
        """
        return epoch % self.eval_epochs == 0 or epoch > self.epochs - self.report_epochs

    def save_due(self, epoch: int) -> bool:
        """Whether a checkpoint is written after `epoch` epochs; always at the end."""
        return epoch % self.save_epochs == 0 or epoch == self.epochs


def make_schedule(config: ConfigDict, method: Method, num_unlabeled: int) -> Schedule:
    """An epoch is one pass over D_u: ceil(|D_u| / M) steps."""
    train, per_epoch = config.train, steps_per_epoch(config, num_unlabeled)
    steps = per_epoch * train.epochs
    if steps > MOST_COUNT:
        raise ConfigError(
            f"train.epochs={train.epochs}: makes {steps:,} steps, and there can be at "
            f"most {MOST_COUNT:,}"
        )
    refresh = method.refresh_epochs or train.refresh_epochs
    return Schedule(
        steps_per_epoch=per_epoch,
        epochs=train.epochs,
        pretrain_epochs=train.pretrain_epochs,
        refresh_epochs=refresh if method.refresh else None,
        save_epochs=train.save_epochs,
        eval_epochs=train.eval_epochs or max(train.epochs // _EVALUATIONS, 1),
        report_epochs=train.report_epochs,
    )


def steps_per_epoch(config: ConfigDict, num_unlabeled: int) -> int:
    """Batches of one pass over D_u, the last one filled up."""
    return -(-num_unlabeled // unlabeled_rows(config))


def unlabeled_rows(config: ConfigDict) -> int:
    """M = μ B: unlabeled images of a step."""
    return config.train.batch_size * config.data.unlabeled_ratio


def steps_field(field: str) -> str:
    """The keyword that a field sets: ramp_percent and ramp_epochs set ramp_steps."""
    stem, _, unit = field.rpartition("_")
    return f"{stem}_steps" if unit in ("percent", "epochs") else field


def in_steps(
    fields: Mapping[str, Any], *, steps_per_epoch: int, epochs: int
) -> dict[str, Any]:
    """Fields of a method with all durations in steps.

    `_percent` counts in all steps of the run, `_epochs` in epochs.
    """
    steps = {}
    for field, value in fields.items():
        if field.endswith("_percent"):
            value = round(value / 100 * steps_per_epoch * epochs)
        elif field.endswith("_epochs"):
            # As late as a step can be is never; no run has more.
            value = min(round(value * steps_per_epoch), MOST_COUNT)
        steps[steps_field(field)] = value
    return steps
