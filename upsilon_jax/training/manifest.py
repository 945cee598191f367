"""What a checkpoint needs beside its arrays to be used anywhere."""

from __future__ import annotations

from upsilon_jax import native
from upsilon_jax.data.digest import data_digest
from upsilon_jax.data.splits import digest
from upsilon_jax.training.setup import Run
from upsilon_jax.workdir.files import versions
from upsilon_jax.workdir.schema import FORMAT, Manifest


def make_manifest(run: Run) -> Manifest:
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
        foreign_below=_foreign_below(run),
        native=native.in_use(),
        versions=versions(),
        split_digest=digest(run.splits),
        data_digest=data_digest(source),
    )


def _foreign_below(run: Run) -> float | None:
    """γ, where SEC uses it and it is a bound on the ID confidence."""
    method = run.config.method
    fields = method.get("upsilon", method)
    used = fields.get("num_clusters") and fields.get("score") == "confidence"
    return fields.get("ood_threshold") if used else None
