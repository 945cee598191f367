"""What a checkpoint needs beside its arrays to be used anywhere."""

from __future__ import annotations

import pathlib

import numpy as np

from upsilon_jax import native
from upsilon_jax.data.digest import changed, changed_files, data_digest, file_digests
from upsilon_jax.data.source import Source
from upsilon_jax.data.splits import digest
from upsilon_jax.errors import DataError, WorkdirError
from upsilon_jax.training.setup import Run
from upsilon_jax.types import TrainState
from upsilon_jax.workdir.files import MANIFEST, PHOTOS, versions
from upsilon_jax.workdir.records import read, read_photos
from upsilon_jax.workdir.schema import FORMAT, Foreign, Manifest


def make_manifest(run: Run, state: TrainState) -> Manifest:
    """The manifest of a run, as far as it is known when the run starts."""
    source, num_classes = run.source, run.splits.num_classes
    classes, heads = run.splits.classes, run.method.heads
    return Manifest(
        format=FORMAT,
        classes=list(classes[:num_classes]),
        ood_classes=list(classes[num_classes:]),
        image_shape=list(source.image_shape),
        mean=list(source.mean),
        std=list(source.std),
        fit=source.fit,
        model=run.config.model.to_dict(),
        heads={name: head._asdict() for name, head in heads.items()},
        method=run.config.method.to_dict(),
        num_classes=num_classes,
        num_clusters=run.num_outputs - num_classes,
        foreign_below=foreign_below(run, state),
        native=native.in_use(),
        versions=versions(),
        split_digest=digest(run.splits),
        data_digest=data_digest(source),
    )


def foreign_below(
    run: Run, state: TrainState, foreign: Foreign | None = None
) -> float | None:
    """γ in force, else where the estimate puts it; None where neither is known."""
    bound = run.method.foreign_below(state.method)
    if bound is not None and np.isfinite(bound):
        return float(bound)
    return foreign and foreign.threshold


def check_unchanged(workdir: pathlib.Path, manifest: Manifest, source: Source) -> None:
    """Refuses to go on with a run whose data are no longer those it began with.

    Args:
      workdir: of the run, which has saved.
      manifest: of the data as they are now.
      source: the data.

    Raises:
      DataError: one line that says what changed, by file where images are files.
      WorkdirError: the data are the same, but other images were drawn from them; or
        there is no manifest, which says what the data were.
    """
    if not (workdir / MANIFEST).exists():
        raise WorkdirError(
            f"{workdir / MANIFEST}: is missing, so nobody can tell whether the images "
            "are those that the run there began with; restore it from a copy, give "
            "another --workdir, or --start_over, which sets the old run aside"
        )
    before = read(Manifest, workdir / MANIFEST)
    parts = changed(before.data_digest, manifest.data_digest)
    if parts:
        what = f"changed are {', '.join(parts)}"
        if (workdir / PHOTOS).exists():
            files = changed_files(read_photos(workdir / PHOTOS), file_digests(source))
            what = "; ".join(files) or what
        raise DataError(
            f"the images are no longer those that the run in {workdir} began with: "
            f"{what}; restore them to go on, or give another --workdir"
        )
    if before.split_digest != manifest.split_digest:
        raise WorkdirError(
            f"the run in {workdir} began with another choice among these images (of "
            "another seed, other fields data.* or another version); restore that to go "
            "on, or give another --workdir"
        )
