"""`label_next.csv`: which images a person should label next, and why.

Two kinds, in turns. Of *undecided* images two readings are about as probable: two
classes, or a class and foreign; the least decided come first. *Typical* images are
nearest to the centre of a foreign group, a group after the other, the largest first:
whoever has seen a few of them knows what the group is. An image that is nearly the same
as an earlier one is passed over.

Where no cluster was learned nothing speaks for foreign, and what the classes disagree
on is mostly that. Then only the half of D_u is looked at that is nearest to the centre
of a class, the mean of the features of its surest images.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from upsilon_jax.report.page.likeness import (
    distance_to_mean,
    distances,
    finite,
    same_below,
)
from upsilon_jax.report.page.unlabeled import who
from upsilon_jax.workdir.csv_files import write_csv
from upsilon_jax.workdir.findings import Findings
from upsilon_jax.workdir.schema import Manifest

_MOST = 100  # images in all, and no more than a tenth of D_u
_LEAST = 10  # unless that is fewer than this
_PER_GROUP = 5
_SMALLEST_GROUP = 3  # fewer have no centre worth the name
_DECIDED = 0.5  # a lead of so much is a decision
_SUREST = 4  # a quarter of the images of a class
_POOL = 200  # candidates of a kind


class Suggestion(NamedTuple):
    """An image of D_u that is worth a label."""

    row: int
    reason: str


def write_label_next(
    path: pathlib.Path, findings: Findings, manifest: Manifest
) -> None:
    """Writes the suggestions, the best first."""
    name, cells = who(findings.unlabeled)
    suggestions = label_next(findings, manifest)
    rows = [(i, cells[row], why) for i, (row, why) in enumerate(suggestions, start=1)]
    write_csv(path, ["rank", name, "reason"], rows)


def label_next(findings: Findings, manifest: Manifest) -> list[Suggestion]:
    """The suggestions, the best first: at most a hundred, or a tenth of D_u."""
    features = finite(findings.features)
    if (findings.pseudo_label >= manifest.num_classes).any():
        kinds = [_undecided(findings, manifest), *_typical(findings)]
    else:
        kinds = [_undecided_near_classes(findings, manifest, features)]
    radius = [same_below(distances(features[_rows(kind)])) for kind in kinds]
    waiting = [iter(kind) for kind in kinds]
    most = min(_MOST, max(_LEAST, len(features) // 10))
    a_round = [kind for group in range(1, len(kinds)) for kind in (0, group)]
    chosen: list[Suggestion] = []
    for kind in [*a_round * _PER_GROUP, *[0] * most]:
        if len(chosen) == most:
            break
        for candidate in waiting[kind]:
            apart = features[_rows(chosen)] - features[candidate.row]
            if not (np.linalg.norm(apart, axis=1) <= radius[kind]).any():
                chosen.append(candidate)
                break
    return chosen


def _rows(suggestions: Sequence[Suggestion]) -> np.ndarray:
    return np.array([suggestion.row for suggestion in suggestions], np.int64)


def _undecided(findings: Findings, manifest: Manifest) -> list[Suggestion]:
    """Images by the lead of the first over the second of C + 1 readings.

    These are the C classes, and foreign: all clusters together. The ID score says
    nothing of it: it is that of one class, and low just because two share the image.
    """
    seen, num_classes = findings.unlabeled, manifest.num_classes
    rows = np.flatnonzero(seen.label >= 0)  # the others have no finite logits
    f = _softmax(seen.logits[rows])
    foreign = f[:, num_classes:].sum(axis=1, keepdims=True)
    readings = np.hstack([f[:, :num_classes], foreign])
    return _least_decided(rows, readings, manifest, lead_below=_DECIDED)


def _undecided_near_classes(
    findings: Findings, manifest: Manifest, features: np.ndarray
) -> list[Suggestion]:
    """Images that look like a class, by the lead of the first over the second one."""
    seen, num_classes = findings.unlabeled, manifest.num_classes
    if num_classes < 2:
        return []  # a single class leaves nothing to decide
    nearest = np.full(len(features), np.inf)
    for label in range(num_classes):
        of_class = np.flatnonzero(seen.label == label)
        surest = of_class[np.argsort(-seen.log_odds[of_class], kind="stable")]
        surest = surest[: -(-len(of_class) // _SUREST)]
        if len(surest):
            centre = features[surest].mean(axis=0)
            apart = np.linalg.norm(features - centre, axis=1)
            nearest = np.minimum(nearest, apart)
    rows = np.flatnonzero(seen.label >= 0)
    rows = rows[np.argsort(nearest[rows], kind="stable")][: -(-len(rows) // 2)]
    among = _softmax(seen.logits[rows, :num_classes])
    return _least_decided(rows, among, manifest)


def _softmax(logits: np.ndarray) -> np.ndarray:
    from scipy.special import softmax  # late: most starts do not come here

    return softmax(logits.astype(np.float64), axis=1)


def _least_decided(
    rows: np.ndarray, readings: np.ndarray, manifest: Manifest, lead_below: float = 2
) -> list[Suggestion]:
    """Images [n] by the lead of the first over the second of their readings [n, r]."""
    best, second = np.argsort(-readings, axis=1, kind="stable")[:, :2].T
    share = lambda reading: readings[np.arange(len(rows)), reading]
    lead = share(best) - share(second)
    wanted = np.flatnonzero(lead < lead_below)
    wanted = wanted[np.argsort(lead[wanted], kind="stable")][:_POOL]
    return [
        Suggestion(int(rows[i]), _between(manifest, readings[i], best[i], second[i]))
        for i in wanted
    ]


def _between(manifest: Manifest, readings: np.ndarray, best: int, second: int) -> str:
    names = [*manifest.classes, "foreign"]
    decided = readings[best] - readings[second] >= _DECIDED
    a, b = best, second
    if not decided and best == manifest.num_classes:
        a, b = second, best  # a class is named first
    shares = f"({100 * readings[a]:.0f} % / {100 * readings[b]:.0f} %)"
    if decided:
        return f"{names[a]} rather than {names[b]} {shares}"
    return f"undecided between {names[a]} and {names[b]} {shares}"


def _typical(findings: Findings) -> list[list[Suggestion]]:
    """For every foreign group, the largest first, its members from the centre on."""
    cluster = findings.unlabeled.cluster
    sizes = np.bincount(cluster[cluster >= 0])
    groups = [
        k for k in np.argsort(-sizes, kind="stable") if sizes[k] >= _SMALLEST_GROUP
    ]
    found = []
    for k in groups[:_MOST]:
        members = np.flatnonzero(cluster == k)
        distance = distance_to_mean(findings.features[members])
        members = members[np.argsort(distance, kind="stable")][:_POOL]
        reason = f"typical of foreign group {k} ({sizes[k]:,} images)"
        found.append([Suggestion(int(row), reason) for row in members])
    return found
