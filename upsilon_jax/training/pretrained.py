"""Supervised epochs that several runs have in common, computed once.

Runs of one method and seed that differ in the share of foreign images have the same
labeled images, initial weights and keys: until the first refresh, and for the baseline
to the end, they are the same bit for bit. The first of them leaves its state in a
folder; the others go on from there, as from a checkpoint of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib

from upsilon_jax.errors import WorkdirError
from upsilon_jax.training.progress import Progress
from upsilon_jax.training.setup import Run
from upsilon_jax.types import TrainState
from upsilon_jax.workdir.checkpoint import (
    Checkpoint,
    Checkpoints,
    clear_unfinished,
)
from upsilon_jax.workdir.lock import locked
from upsilon_jax.workdir.saved import set_run_aside
from upsilon_jax.workdir.schema import Manifest


def epochs_in_common(run: Run) -> int:
    """Whole epochs in which no unlabeled image has a part.

    One less than are supervised: the last one ends with a refresh, or with the run.
    None if the method reads the hidden labels, which differ: its state has them at
    step 0.
    """
    if run.method.reads_hidden_labels:
        return 0
    schedule = run.schedule
    supervised = schedule.pretrain_epochs if run.method.views else schedule.epochs
    return max(supervised - 1, 0)


def pretrained_folder(
    run: Run, manifest: Manifest, root: pathlib.Path
) -> pathlib.Path | None:
    """A name of its own for everything that decides the numbers of those epochs.

    None if there are no such epochs.
    """
    if not epochs_in_common(run):
        return None
    config = run.config.to_dict()
    for field in ("mismatch", "unseen"):
        config["data"].pop(field)
    deciding = {
        "config": config,
        "labeled": run.splits.labeled.tolist(),
        "num_unlabeled": len(run.splits.unlabeled),
        "data": manifest.data_digest,
        "devices": run.mesh.size,
        "versions": manifest.versions,
    }
    text = json.dumps(deciding, sort_keys=True)
    return root / hashlib.sha256(text.encode()).hexdigest()[:16]


def find_pretrained(folder: pathlib.Path, template: TrainState) -> Checkpoint | None:
    """What another run has left, if there is something that can be used."""
    if not folder.exists():
        return None
    with contextlib.closing(Checkpoints(folder, keep=1)) as checkpoints:
        try:
            return checkpoints.restore(template)[0]
        except WorkdirError:  # damaged: it is only a short cut, and others make it anew
            with contextlib.suppress(WorkdirError), locked(folder):
                set_run_aside(folder)
            return None


def leave_pretrained(run: Run, folder: pathlib.Path, progress: Progress) -> None:
    """Leaves the state for others, if this is the epoch, and nobody else is at it."""
    if progress.epoch != epochs_in_common(run) or not progress.epoch:
        return
    with contextlib.suppress(WorkdirError), locked(folder):
        clear_unfinished(folder)
        with contextlib.closing(Checkpoints(folder, keep=1)) as checkpoints:
            if not checkpoints.has_any():
                checkpoints.save(progress.number, progress.state, progress.record())
