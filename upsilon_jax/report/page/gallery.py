"""Which images a report shows, and in which sections.

Ranks are by log-odds, which do not saturate, and ties fall to the lowest row: the same
findings always give the same pictures. Images of D_u that are nearly the same as one
already chosen are passed over, so that a burst of photos fills no sheet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from upsilon_jax.report.page.likeness import (
    distance_to_mean,
    distances,
    same_below,
)
from upsilon_jax.workdir.findings import Findings
from upsilon_jax.workdir.schema import Manifest

# Pictures of a section in all; together they stay below 400.
_PICTURES = {
    "surest": 120,
    "groups": 120,
    "foreign": 48,
    "mistakes": 48,
    "doubtful": 36,
}
_SHEET = 12  # of one class or group at most
_GROUP = 3  # at least, so that a group can be recognised as one
_POOL = 4  # times as many candidates as pictures are compared with each other


class Sheet(NamedTuple):
    """Pictures of one kind, the most telling first."""

    kind: int  # the class or the cluster; -1 if the sheet is the whole section
    rows: np.ndarray  # [s] int64, numbered as `Findings.thumbnail_of`
    size: int  # how many images it was chosen from


class Gallery(NamedTuple):
    """The sections of a report; one without sheets has nothing to show."""

    surest: list[Sheet]  # a sheet per class: images of D_u, most confident first
    groups: list[Sheet]  # a sheet per cluster, largest first: its typical members
    foreign: list[Sheet]  # images of D_u with the least ID confidence
    doubtful: list[Sheet]  # not foreign, but torn between two classes
    mistakes: list[Sheet]  # test images of ID classes: surest of a wrong class


def wanted_rows(findings: Findings, manifest: Manifest) -> np.ndarray:
    """[s] int64 the images that a report shows, numbered as `thumbnail_of`.

    Args:
      findings: of the run; `thumbnails` may still be empty.
      manifest: of the run.
    """
    sheets = [
        sheet for section in make_gallery(findings, manifest) for sheet in section
    ]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(s.rows for s in sheets)]))


def make_gallery(findings: Findings, manifest: Manifest) -> Gallery:
    """Chooses the pictures of every section."""
    seen, num_classes = findings.unlabeled, manifest.num_classes
    known = ~is_foreign(findings, manifest)
    margin = _margin(seen.logits[:, :num_classes])
    return Gallery(
        surest=_surest(findings, num_classes),
        groups=_groups(findings, manifest.num_clusters),
        foreign=_whole(findings, "foreign", seen.log_odds, np.isfinite(seen.log_odds)),
        doubtful=_whole(findings, "doubtful", margin, known & np.isfinite(margin)),
        mistakes=_mistakes(findings, num_classes),
    )


def is_foreign(findings: Findings, manifest: Manifest) -> np.ndarray:
    """[N] bool: ID confidence below γ; where there is no γ, on a cluster."""
    seen = findings.unlabeled
    if manifest.foreign_below is None:
        return seen.cluster >= 0
    return seen.id_score < manifest.foreign_below


def _surest(findings: Findings, num_classes: int) -> list[Sheet]:
    """A sheet for each class that has images, in the order of classes."""
    seen, total = findings.unlabeled, _PICTURES["surest"]
    count = min(_SHEET, max(1, total // num_classes))
    sheets = []
    for kind in range(min(num_classes, total)):
        members = np.flatnonzero((seen.label == kind) & (seen.cluster < 0))
        ranked = members[_order(-seen.log_odds[members])]
        sheets.append(Sheet(kind, _distinct(findings, ranked, count), len(members)))
    return [sheet for sheet in sheets if sheet.size]


def _groups(findings: Findings, num_clusters: int) -> list[Sheet]:
    """A sheet for each cluster that has images, the largest first."""
    cluster, total = findings.unlabeled.cluster, _PICTURES["groups"]
    sizes = np.bincount(cluster[cluster >= 0], minlength=num_clusters)
    largest = [k for k in _order(-sizes) if sizes[k]][: total // _GROUP]
    count = min(_SHEET, total // max(1, len(largest)))
    sheets = []
    for kind in largest:
        members = np.flatnonzero(cluster == kind)
        ranked = members[_order(distance_to_mean(findings.features[members]))]
        sheets.append(
            Sheet(int(kind), _distinct(findings, ranked, count), len(members))
        )
    return sheets


def _whole(
    findings: Findings, section: str, score: np.ndarray, where: np.ndarray
) -> list[Sheet]:
    """One sheet of the images of D_u with the least score."""
    rows = np.flatnonzero(where)
    ranked = rows[_order(score[rows])]
    chosen = _distinct(findings, ranked, _PICTURES[section])
    return [Sheet(-1, chosen, len(rows))] if len(rows) else []


def _mistakes(findings: Findings, num_classes: int) -> list[Sheet]:
    """One sheet of test images of ID classes that were taken for another of them."""
    test = findings.test
    is_id = (test.truth >= 0) & (test.truth < num_classes)
    rows = np.flatnonzero(is_id & (test.label != test.truth))
    if not len(rows):
        return []
    ranked = rows[_order(-test.log_odds[rows])][: _PICTURES["mistakes"]]
    return [Sheet(-1, ranked + len(findings.unlabeled.index), len(rows))]


def _margin(logits: np.ndarray) -> np.ndarray:
    """[n] the lead of the most probable class over the next; 0 if there is but one."""
    if logits.shape[1] < 2:
        return np.zeros(len(logits), logits.dtype)
    top = np.partition(logits, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def _distinct(findings: Findings, ranked: np.ndarray, count: int) -> np.ndarray:
    """The first `count` rows that are not nearly the same as an earlier one."""
    pool = ranked[: _POOL * count]
    distance = distances(findings.features[pool])
    same = distance < same_below(distance)
    chosen: list[int] = []
    for candidate in range(len(pool)):
        if len(chosen) < count and not same[candidate, chosen].any():
            chosen.append(candidate)
    return pool[chosen].astype(np.int64)


_order: Callable[[np.ndarray], np.ndarray] = lambda key: np.argsort(key, kind="stable")
