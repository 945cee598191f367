"""K from the data: `method.num_clusters="auto"` becomes a number before step 0.

K decides the shape of the network, so unlike γ it cannot change on the way. A network
of the same kind is trained for a little while on the labeled images alone; in how many
directions its features of those unlabeled images spread that look least like the
classes is K. The number is stored in the config of the run, and a run that is resumed
takes it from there.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import ml_collections
import numpy as np
from jax.sharding import Mesh

from upsilon_jax.config import with_method
from upsilon_jax.config.flat import auto_clusters, flatten
from upsilon_jax.errors import ConfigError
from upsilon_jax.kernels.confidence import id_confidence
from upsilon_jax.runtime import sharding
from upsilon_jax.training.epoch import train_epoch
from upsilon_jax.training.progress import Progress
from upsilon_jax.training.refresh import predict
from upsilon_jax.training.setup import Run, Shared, initial_state, prepare
from upsilon_jax.workdir.files import CONFIG
from upsilon_jax.workdir.records import read_json

_SHARE_OF_STEPS = 10  # a tenth of the run's
_STEPS = (10, 300)  # fewest and most
_MOST_IMAGES = 4000
# Of the running BatchNorm statistics: those of long runs would not be there yet.
_BN_DECAY = 0.95
_CLUSTERS = (2, 20)  # the paper has up to 20


def settle_clusters(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    *,
    mesh: Mesh | None,
    shared: Shared,
    say: Callable[[str], None],
) -> tuple[ml_collections.ConfigDict, tuple[str, ...]]:
    """A config whose K is a number, and what is to be said of it with the run's notes.

    Args:
      config: valid; returned as it is unless its K is "auto".
      workdir: if a run has begun there, its K is taken.
      mesh: the devices to use; None for all of them.
      shared: data and programs of other runs.
      say: tells the person at once what the time is for.
    """
    field = auto_clusters(flatten(config))
    if field is None:
        return config, ()
    number, lines = _stored(workdir, field), tuple[str, ...]()
    if number is None:
        run = _probe_run(config, mesh, shared)
        say(
            f"K is left to the data: training for {run.schedule.total_steps} steps on "
            "the labeled images first, to choose it; the run's own steps come on top"
        )
        number = count_directions(_least_known(run))
        lines = (
            f"K = {number} clusters, chosen from the features of a network trained for "
            f"{run.schedule.total_steps} steps on the labeled images",
        )
    config = config.copy_and_resolve_references()
    with config.ignore_type():
        config.update_from_flattened_dict({field: number})
    return config, lines


def _stored(workdir: pathlib.Path, field: str) -> int | None:
    """The K of the run that has begun here."""
    path = workdir / CONFIG
    number = flatten(read_json(path)).get(field) if path.exists() else None
    return number if isinstance(number, int) else None


def _probe_run(
    config: ml_collections.ConfigDict, mesh: Mesh | None, shared: Shared
) -> Run:
    """The baseline on the data of the config, as a single short epoch."""
    config = with_method(config.copy_and_resolve_references(), "baseline")
    config.model.bn_decay = min(config.model.bn_decay, _BN_DECAY)
    run = prepare(config, mesh=mesh, shared=shared)
    steps = int(np.clip(run.schedule.total_steps // _SHARE_OF_STEPS, *_STEPS))
    short = run.schedule._replace(steps_per_epoch=steps, epochs=1)
    return run._replace(schedule=short)


def _least_known(run: Run) -> np.ndarray:
    """[M, D] features of the half of D_u with the lowest ID confidence, after training.

    Of a large D_u evenly spaced images stand for all.
    """
    progress = Progress(initial_state(run))
    train_epoch(run, progress, lambda *_: None)
    if progress.diverged_step is not None:
        raise ConfigError(
            "method.num_clusters='auto': the loss of the network that was to choose it "
            "is not finite; lower train.learning_rate, or give a number"
        )
    weights = (progress.state.params, progress.state.stats)
    images = run.splits.unlabeled[:: -(-len(run.splits.unlabeled) // _MOST_IMAGES)]
    outputs = predict(run, weights, "train", images)
    rows = lambda name: sharding.fetch(outputs[name])[: len(images)]
    rank = np.asarray(id_confidence(rows("logits"), run.splits.num_classes).rank)
    return rows("features")[rank <= np.median(rank)]


def count_directions(features: np.ndarray) -> int:
    """In how many directions images spread, [M, D] -> K.

    With the eigenvalues λ of the covariance of the features, each of length 1, it is
    (Σ λ)² / Σ λ²: n if they spread in n directions alike, whatever D.
    """
    features = features.astype(np.float64)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    features /= np.maximum(lengths, np.finfo(np.float64).tiny)
    centred = features - features.mean(axis=0)
    covariance = centred.T @ centred
    squares = np.sum(covariance**2)
    number = np.trace(covariance) ** 2 / squares if squares else 0
    return int(np.clip(round(number), *_CLUSTERS))
