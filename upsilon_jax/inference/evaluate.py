"""How good a model is on labeled images: a folder with one sub-folder a class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from upsilon_jax.data.directories import class_folders, list_files
from upsilon_jax.errors import DataError, nearest
from upsilon_jax.inference import metrics
from upsilon_jax.inference.images import Skipped, of_files
from upsilon_jax.inference.model import Model, Predicted
from upsilon_jax.inference.predicted import columns
from upsilon_jax.report import open_set


class Evaluation(NamedTuple):
    """What `--mode=evaluate` finds, and writes as JSON."""

    classes: Annotated[list[str], "the ID classes of the model"]
    foreign: Annotated[list[str], "sub-folders that are none of them"]
    num_images: Annotated[int, "of ID classes"]
    num_foreign: Annotated[int, "of others"]
    num_skipped: Annotated[int, "files that are no image"]
    accuracy: Annotated[float, "share of right ID images"]
    class_accuracy: Annotated[list[float | None], "of each class; null without images"]
    class_images: Annotated[list[int], "images of each class"]
    confusion: Annotated[
        list[list[int]],
        "[classes, then foreign sub-folders; classes]: true by predicted class",
    ]
    calibration_error: Annotated[
        float, "mean difference of probability and share right, in 15 bins"
    ]
    auroc: Annotated[
        float | None, "how well ID confidence tells ID from foreign images"
    ]
    fpr95: Annotated[
        float | None, "share of foreign images that pass where 95 % of ID images do"
    ]
    aupr: Annotated[float | None, "average precision, ID images positive"]
    balanced_accuracy: Annotated[
        float | None,
        "mean recall of the classes and of foreign images as one more, which are "
        "predicted by `foreign_below` of the manifest",
    ]


def evaluate(
    model: Model, folders: Sequence[str], skipped: Skipped, *, show: bool = False
) -> Evaluation:
    """Predicts the images of folders with one sub-folder a class.

    Args:
      model: what is measured.
      folders: sub-folders that are no class of the model count as foreign.
      skipped: gets the files that cannot be used.
      show: a progress bar, where there is a terminal.

    Raises:
      DataError: no folder has an image of a class.
    """
    names, files = _labeled_files(model, folders, skipped)
    pictures = of_files([path for path, _ in files], model.fit)
    predicted = model.predict(pictures, skipped, show=show)
    label_of = dict(files)
    label = np.array([label_of[path] for path in predicted.path], int)
    if not (label < len(model.classes)).any():
        reason = f" ({': '.join(skipped[0])})" if skipped else ""
        raise DataError(f"{folders[0]}: has no image of a class{reason}")
    return _measured(model, predicted, label, names)._replace(num_skipped=len(skipped))


def _labeled_files(
    model: Model, folders: Sequence[str], skipped: Skipped
) -> tuple[list[str], list[tuple[str, int]]]:
    """All names, those of the classes first, and (file, place of its name)."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        if not os.path.isdir(os.path.expanduser(folder)):
            raise DataError(f"{folder}: there is no such folder")
        subs = class_folders(os.path.expanduser(folder), skipped)
        for name, paths in subs.items():
            found.setdefault(name, []).extend(paths)
    if not set(found) & set(model.classes):
        have = ", ".join(list(found)[:5]) or "there are none"
        raise DataError(
            f"{folders[0]}: no sub-folder is called like a class of the model ({have});"
            f" {nearest(next(iter(found), ''), model.classes)}"
        )
    names = [*model.classes, *sorted(set(found) - set(model.classes))]
    return names, [
        (path, place)
        for place, name in enumerate(names)
        for sub in found.get(name, ())
        for path in list_files(sub, skipped)
    ]


def _measured(
    model: Model, predicted: Predicted, label: np.ndarray, names: list[str]
) -> Evaluation:
    num_classes = len(model.classes)
    known = label < num_classes
    right = (predicted.label == label)[known]
    confusion = metrics.confusion(predicted.logits, label, num_classes, len(names))
    per_class = zip(confusion.diagonal(), confusion.sum(axis=1), strict=False)
    log_odds = columns(predicted.logits, num_classes).log_odds
    error = open_set.calibration_error(predicted.probability[known], right)
    assert error is not None  # `evaluate` sees to it
    below, balanced = model.manifest.foreign_below, None
    if below is not None:
        foreign = predicted.id_score < below
        balanced = open_set.balanced_accuracy(
            predicted.label, foreign, label, num_classes
        )
    return Evaluation(
        classes=names[:num_classes],
        foreign=names[num_classes:],
        num_images=int(known.sum()),
        num_foreign=int((~known).sum()),
        num_skipped=0,
        accuracy=float(right.mean()),
        class_accuracy=[float(hit / all_) if all_ else None for hit, all_ in per_class],
        class_images=confusion.sum(axis=1)[:num_classes].tolist(),
        confusion=confusion.tolist(),
        calibration_error=error,
        auroc=open_set.auroc(log_odds, known),
        fpr95=open_set.fpr95(log_odds, known),
        aupr=open_set.aupr(log_odds, known),
        balanced_accuracy=balanced,
    )


def text_of(found: Evaluation) -> str:
    """A few lines for a person: the numbers, and a table of true by predicted class."""
    lines = [
        f"accuracy           {found.accuracy:.2%}  of {found.num_images:,} images",
        f"calibration error  {found.calibration_error:.2%}",
    ]
    if found.auroc is not None:
        lines.append(
            f"AUROC              {found.auroc:.4f}  "
            f"(known against {found.num_foreign:,} foreign images)"
        )
        lines.append(f"FPR95              {found.fpr95:.2%}")
        lines.append(f"AUPR               {found.aupr:.4f}")
    if found.balanced_accuracy is not None:
        lines.append(
            f"balanced accuracy  {found.balanced_accuracy:.2%}  "
            "(foreign images as one more class)"
        )
    header = ["true \\ predicted", *found.classes, "right"]
    rates = [*found.class_accuracy, *[None] * len(found.foreign)]
    names = [*found.classes, *(f"{name} (foreign)" for name in found.foreign)]
    rows = [
        [name, *map(str, counts), "" if rate is None else f"{rate:.1%}"]
        for name, counts, rate in zip(names, found.confusion, rates, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    shown = lambda row: "  ".join(
        [
            row[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
        ]
    )
    return "\n".join([*lines, "", *(shown(row).rstrip() for row in [header, *rows])])
