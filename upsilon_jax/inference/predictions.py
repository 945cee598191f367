"""`predictions.csv`: what a model says of images, a line each."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Sequence

from upsilon_jax.errors import DataError
from upsilon_jax.inference.images import Skipped, find_pictures
from upsilon_jax.inference.model import Model, Predicted
from upsilon_jax.report.page.unlabeled import foreign, prediction_columns
from upsilon_jax.workdir.csv_files import write_csv

PREDICTIONS = "predictions.csv"


def predict_paths(model: Model, paths: Sequence[str]) -> Predicted:
    """Predicts files and folders, with a progress bar; what is no image is skipped.

    Raises:
      DataError: nothing is left to predict; the first reason stands in the line.
    """
    skipped: Skipped = []
    pictures = find_pictures(paths, model.fit, skipped)
    predicted = model.predict(pictures, skipped, show=True)
    if not len(predicted.label):
        reason = f": {': '.join(skipped[0])}" if skipped else ""
        raise DataError(f"{', '.join(paths)}: has no image to predict{reason}")
    return predicted


def write_predictions(
    path: pathlib.Path, predicted: Predicted, foreign_below: float | None
) -> None:
    """Writes the table; images of a single array are named by their place."""
    paths, index = predicted.path, predicted.index
    if len(set(paths)) == 1 and (index >= 0).all():
        first, names = "index", index.tolist()
    else:
        first = "path"
        pairs = zip(paths, index, strict=True)
        names = [path if place < 0 else f"{path}[{place}]" for path, place in pairs]
    classes = predicted.class_name.tolist()
    columns = prediction_columns(first, names, classes, predicted, foreign_below)
    write_csv(path, list(columns), zip(*columns.values(), strict=True))


def counted(predicted: Predicted, foreign_below: float | None) -> list[str]:
    """How many images each class got, the commonest first, and how many are foreign."""
    counts = collections.Counter(predicted.class_name.tolist()).most_common()
    lines = [f"  {count:>8,}  {name or 'outputs not finite'}" for name, count in counts]
    found = foreign(predicted.id_score, foreign_below)
    if foreign_below is not None:
        lines.append(
            f"  {found.count(True):>8,}  of them look foreign (ID score below "
            f"{foreign_below:g})"
        )
    return [f"{len(found):,} images", *lines]
