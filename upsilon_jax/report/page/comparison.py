"""A run against the one that learned from labeled images only."""

from __future__ import annotations

import numpy as np

from upsilon_jax.report.page.markup import Child, scrolling, table, tag
from upsilon_jax.report.page.phrases import (
    count,
    listed,
    method_title,
    percent,
    points,
)
from upsilon_jax.report.page.run_files import RunFiles, changed_settings

_MOST_FOREIGN = (25, 50, 100, 200, 500, 1000)


def comparison(run: RunFiles, baseline: RunFiles) -> list[Child]:
    """This run against the one that learned from labeled images only."""
    ours, theirs = run.result, baseline.result
    this, that = method_title(run.method), method_title(baseline.method)
    rows = [
        ("accuracy on test images", ours.accuracy, theirs.accuracy),
        ("telling known from foreign (AUROC)", ours.auroc, theirs.auroc),
        *_foreign_rows(run, baseline),
    ]
    lines = [
        (name, percent(one), percent(two), points(one - two).split()[0])
        for name, one, two in rows
        if one is not None and two is not None
    ]
    changed = changed_settings(run, baseline)
    return [
        tag("p", _changed_verdicts(run, baseline)),
        scrolling(
            "Comparison",
            table(["", this, that, "gain in points"], lines, "Same split, same seed."),
        ),
        tag("p", f"The two runs also differ in {listed(changed)}.", class_="muted")
        if changed
        else None,
    ]


def precision_of_foreign(run: RunFiles, number: int) -> float:
    """Share of foreign images among the `number` that look most foreign."""
    seen = run.found.unlabeled
    order = np.argsort(seen.log_odds, kind="stable")[:number]
    return float((seen.truth[order] >= run.num_classes).mean())


def numbers_of_foreign(run: RunFiles) -> list[int]:
    """How many of the most foreign to look at: no more than there are."""
    if not run.truth_is_known:
        return []
    foreign = int((run.found.unlabeled.truth >= run.num_classes).sum())
    return [number for number in _MOST_FOREIGN if number <= foreign]


def _foreign_rows(run: RunFiles, baseline: RunFiles) -> list[tuple]:
    if baseline.findings is None:
        return []
    return [
        (
            f"foreign among the {count(number)} most foreign",
            precision_of_foreign(run, number),
            precision_of_foreign(baseline, number),
        )
        for number in numbers_of_foreign(run)
    ]


def _changed_verdicts(run: RunFiles, baseline: RunFiles) -> str:
    """Test images that one model gets right and the other wrong."""
    difference = (run.result.accuracy or 0) - (baseline.result.accuracy or 0)
    verb = "brought" if difference >= 0 else "cost"
    gain = (
        f"The unlabeled images {verb} {100 * abs(difference):.1f} points of accuracy."
    )
    if run.findings is None or baseline.findings is None:
        return gain
    test, other = run.findings.test, baseline.findings.test
    if not np.array_equal(test.index, other.index):
        return gain
    is_id = test.truth < run.num_classes
    right, before = (t.label[is_id] == t.truth[is_id] for t in (test, other))
    won, lost = int((right & ~before).sum()), int((before & ~right).sum())
    # The sign test at about 5 %: a difference of 2 √(won + lost) is beyond luck.
    luck = abs(won - lost) <= 2 * (won + lost) ** 0.5
    return (
        f"{gain} With the last weights {count(won, 'test image')} became right and "
        f"{count(lost)} became wrong"
        + (
            ": few enough that it may be luck."
            if luck
            else ": more than luck explains."
        )
    )
