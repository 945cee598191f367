"""`unlabeled.csv`: what became of the heap, a row for each of its images."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from upsilon_jax.workdir.csv_files import write_csv
from upsilon_jax.workdir.findings import Findings, Seen
from upsilon_jax.workdir.schema import Manifest


def write_unlabeled(path: pathlib.Path, findings: Findings, manifest: Manifest) -> None:
    """Writes a row for each image of D_u, in the order of D_u.

    `truth` is a column only if it is known of some image.
    """
    seen = findings.unlabeled
    classes = label_names(seen.label, manifest)
    columns = {
        **prediction_columns(*who(seen), classes, seen, manifest.foreign_below),
        "pseudo_label": label_names(findings.pseudo_label, manifest),
    }
    if (seen.truth >= 0).any():
        names = [*manifest.classes, *manifest.ood_classes]
        columns["truth"] = [names[y] if y >= 0 else "" for y in seen.truth]
    write_csv(path, list(columns), zip(*columns.values(), strict=True))


def prediction_columns(
    name: str,
    cells: Sequence[Any],
    classes: Sequence[str],
    said: Any,
    below: float | None,
) -> dict[str, Iterable[Any]]:
    """What a model says of images, by the names of the columns.

    Args:
      name: of the first column, `path` or `index`.
      cells: what stands in it.
      classes: the name of the most probable class of each image.
      said: has `probability`, `id_score` and `cluster`, as `Seen`.
      below: the ID score below which an image counts as foreign.
    """
    return {
        name: cells,
        "class": classes,
        "probability": said.probability,
        "id_score": said.id_score,
        "foreign": foreign(said.id_score, below),
        "cluster": [int(k) if k >= 0 else None for k in said.cluster],
    }


def who(seen: Seen) -> tuple[str, Sequence[Any]]:
    """The first column: `path`, or `index` where images are no files."""
    if np.any(seen.path != ""):
        return "path", seen.path.tolist()
    return "index", seen.index.tolist()


def foreign(id_score: np.ndarray, below: float | None) -> list[bool | None]:
    """Whether each image counts as foreign; None where nobody can say."""
    if below is None:
        return [None] * len(id_score)
    return [None if np.isnan(score) else bool(score < below) for score in id_score]


def label_names(labels: np.ndarray, manifest: Manifest) -> list[str]:
    """The class, or `cluster k`, of labels in [0, T); "" for -1."""
    clusters = (f"cluster {k}" for k in range(manifest.num_clusters))
    names = np.array([*manifest.classes, *clusters, ""])  # -1 is the last one
    return names[labels].tolist()
