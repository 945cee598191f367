"""Signs in the pseudo-labels that a run goes wrong, told while something can be done.

They follow from the history alone, so a run that goes on says and records the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ml_collections

from upsilon_jax.config import Schedule
from upsilon_jax.workdir.schema import Entry

_PATIENCE = 3  # refreshes without an ID label
_FALLEN = 0.75  # of the highest N: at or below it, N falls


def concerns(
    history: Sequence[Entry],
    config: ml_collections.ConfigDict,
    schedule: Schedule,
    num_unlabeled: int,
) -> list[tuple[int, str]]:
    """(epoch, one line) whenever a sign appears, or comes back after it was gone.

    With N and M as at a refresh (`schema.Labels`), the signs are

        SEC swallows D_u:  M > |D_u| / 2 while N ≤ 3/4 of its highest value so far,
        RPL finds nothing: N = 0 at three refreshes in a row.
    """
    composed = "upsilon" in config.method
    fields = config.method.upsilon if composed else config.method
    section = f"--config.method.{'upsilon.' if composed else ''}"
    refreshed = [e for e in history if e.labels and schedule.refresh_due(e.epoch)]
    found = list(_swallowed(refreshed, num_unlabeled, fields, section))
    if fields.get("rebalance"):
        found += _nothing(refreshed, fields, section)
    return sorted(found)


def _swallowed(refreshed, num_unlabeled, fields, section) -> Iterator[tuple[int, str]]:
    highest, before = 0, False
    for entry in refreshed:
        each, explored = entry.labels.per_class, entry.labels.num_explored
        highest = max(highest, each)
        falls = each <= _FALLEN * highest and highest > 0
        now = falls and explored > num_unlabeled / 2
        if now and not before:
            yield (
                entry.epoch,
                f"epoch {entry.epoch}: SEC swallows the unlabeled images: "
                f"{explored:,} of {num_unlabeled:,} are on clusters (M), and each "
                f"class is left {each:,} (N, once {highest:,}); unless most are really "
                f"foreign, lower {section}ood_threshold (γ, {fields.ood_threshold})",
            )
        before = now


def _nothing(refreshed, fields, section) -> Iterator[tuple[int, str]]:
    in_a_row = 0
    for entry in refreshed:
        in_a_row = 0 if entry.labels.per_class else in_a_row + 1
        if in_a_row == _PATIENCE:
            yield (
                entry.epoch,
                f"epoch {entry.epoch}: N is 0 at {_PATIENCE} refreshes in a row: some "
                "class has no unlabeled image that the network is sure of, so none is "
                f"given a label; lower {section}threshold (τ, {fields.threshold}), or "
                "raise --config.train.pretrain_epochs",
            )
