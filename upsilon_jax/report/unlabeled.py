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
    columns = {
        **prediction_columns(seen, manifest),
        "pseudo_label": label_names(findings.pseudo_label, manifest),
    }
    if (seen.truth >= 0).any():
        names = [*manifest.classes, *manifest.ood_classes]
        columns["truth"] = [names[y] if y >= 0 else "" for y in seen.truth]
    write_csv(path, list(columns), zip(*columns.values(), strict=True))


def prediction_columns(seen: Seen, manifest: Manifest) -> dict[str, Iterable[Any]]:
    """What the model says of images, by the names of the columns."""
    name, cells = who(seen)
    return {
        name: cells,
        "class": label_names(seen.label, manifest),
        "probability": seen.probability,
        "id_score": seen.id_score,
        "foreign": foreign(seen, manifest),
        "cluster": [int(k) if k >= 0 else None for k in seen.cluster],
    }


def who(seen: Seen) -> tuple[str, Sequence[Any]]:
    """The first column: `path`, or `index` where images are no files."""
    if np.any(seen.path != ""):
        return "path", seen.path.tolist()
    return "index", seen.index.tolist()


def foreign(seen: Seen, manifest: Manifest) -> Sequence[bool | None]:
    """Whether the ID score is below the manifest's bound; None where there is none."""
    if manifest.foreign_below is None:
        return [None] * len(seen.index)
    return (seen.id_score < manifest.foreign_below).tolist()


def label_names(labels: np.ndarray, manifest: Manifest) -> list[str]:
    """The class, or `cluster k`, of labels in [0, T); "" for -1."""
    clusters = (f"cluster {k}" for k in range(manifest.num_clusters))
    names = np.array([*manifest.classes, *clusters, ""])  # -1 is the last one
    return names[labels].tolist()
