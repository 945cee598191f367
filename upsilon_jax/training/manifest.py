"""What a checkpoint needs beside its arrays to be used anywhere."""

from __future__ import annotations

import numpy as np

from upsilon_jax import native
from upsilon_jax.data.digest import data_digest
from upsilon_jax.data.splits import digest
from upsilon_jax.training.setup import Run
from upsilon_jax.types import TrainState
from upsilon_jax.workdir.files import versions
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
        num_clusters=heads["logits"].size - num_classes,
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
