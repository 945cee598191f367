"""What stays the same while a run goes on: data, split, method, compiled functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from jax.sharding import Mesh

from upsilon_jax import models
from upsilon_jax.config import Schedule, build_method, make_schedule
from upsilon_jax.config.from_data import (
    choices,
    complete,
    draw_splits,
    open_source,
    open_unseen,
)
from upsilon_jax.data.source import Source
from upsilon_jax.data.splits import relabel
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import Method
from upsilon_jax.runtime import sharding
from upsilon_jax.training import feed
from upsilon_jax.training.memory import check_memory
from upsilon_jax.training.programs import Programs, make_programs, program_key
from upsilon_jax.training.step import Pixels, init_state, make_optimizer
from upsilon_jax.types import Splits, TrainState

# Purposes of the run's root key.
METHOD_KEY, TRAIN_KEY, REFRESH_KEY = range(3)


class Shared:
    """What runs with the same data have in common: opened once, compiled once.

    Runs that differ in more than their seed may share the data, but no programs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # seeds side by side are threads
        self._source: Source | None = None
        self._programs: dict[Hashable, Programs] = {}

    def source(self, config: ml_collections.ConfigDict) -> Source:
        """The data of the first config that asks; later ones must name the same."""
        with self._lock:
            self._source = self._source or open_source(config)
            return self._source

    def programs(self, key: Hashable, make: Callable[[], Programs]) -> Programs:
        """Those of a run with the same `program_key`, or new ones."""
        with self._lock:
            if key not in self._programs:
                self._programs[key] = make()
            return self._programs[key]


class Run(NamedTuple):
    """All that training needs and never changes."""

    config: ml_collections.ConfigDict  # complete: nothing is left to choose
    source: Source
    splits: Splits
    unseen: np.ndarray | None  # [m, H, W, C] uint8, foreign images from elsewhere
    train_classes: np.ndarray  # of all train images, in the split's numbering
    test_classes: np.ndarray  # ID 0 .. C-1, then OOD; -1 for all others
    method: Method
    module: Any  # the network, without values
    optimizer: optax.GradientTransformation
    schedule: Schedule
    mesh: Mesh
    programs: Programs
    feed: feed.Feed
    key: jax.Array
    notes: tuple[str, ...]  # lines for the person who started it

    @property
    def hidden(self) -> np.ndarray:
        """[N] true classes of D_u: for diagnostics, and for the strategies only."""
        return self.train_classes[self.splits.unlabeled]

    @property
    def num_outputs(self) -> int:
        """T = C + K."""
        return self.method.num_outputs

    @property
    def truth_is_known(self) -> bool:
        """Whether `hidden` says the class of every image."""
        return bool((self.hidden >= 0).all())


def prepare(
    config: ml_collections.ConfigDict,
    *,
    mesh: Mesh | None = None,
    shared: Shared | None = None,
    notes: Sequence[str] = (),
) -> Run:
    """Opens the data and builds what a valid config describes.

    Args:
      config: see `upsilon_jax/config`; K is a number (`training/clusters.py`).
      mesh: the devices to use; None for all of them.
      shared: data and programs of other runs, used where they are the same.
      notes: what is to be said beside what the data and the config give rise to.
    """
    shared = shared or Shared()
    source = shared.source(config)
    splits = draw_splits(config, source)
    asked, config = config, complete(config, source, splits)
    num_ood = len(splits.classes) - splits.num_classes
    method = build_method(config, splits.num_classes, num_ood, len(splits.unlabeled))
    mesh = mesh or sharding.data_mesh()
    _check(config, method, source, splits, mesh)
    check_memory(config, source, splits, method, mesh)
    schedule = make_schedule(config, method, len(splits.unlabeled))
    module = build_model(config, method, native=mesh.size == 1)
    optimizer = build_optimizer(config, schedule)
    data = config.data
    programs = shared.programs(
        program_key(config, source, splits, mesh),
        lambda: make_programs(
            method,
            models.forward_of(module),
            optimizer,
            Pixels(source.mean, source.std, data.augmentation, data.flip),
            mesh,
            ema_decay=config.train.ema_decay,
            steps_per_call=steps_per_call(config),
        ),
    )
    classes = lambda labels: relabel(labels, source.class_names, splits.classes)
    test_classes = classes(source.test_labels)
    whole = sharding.replicated(mesh)
    return Run(
        config=config,
        source=source,
        splits=splits,
        unseen=open_unseen(config, source, len(splits.test)),
        train_classes=classes(source.train_labels),
        test_classes=test_classes,
        method=method,
        module=module,
        optimizer=optimizer,
        schedule=schedule,
        mesh=mesh,
        programs=programs,
        feed=_open_feed(config, source, splits, test_classes, mesh, programs),
        key=jax.jit(lambda: jax.random.key(config.seed), out_shardings=whole)(),
        notes=(*source.notes, *choices(asked, config), *notes),
    )


def _check(config, method: Method, source: Source, splits: Splits, mesh: Mesh) -> None:
    """What can only be said once the data are open."""
    if not len(splits.test):
        raise ConfigError(f"{source.name} has no test image of an ID class")
    if method.reads_hidden_labels and source.has_unlabeled:
        raise ConfigError(
            f"method.name={config.method.name!r}: reads the true classes of the "
            f"unlabeled images, which {source.name} does not have"
        )
    if config.train.batch_size % mesh.size:
        raise ConfigError(
            f"train.batch_size={config.train.batch_size}: must be a multiple of the "
            f"{mesh.size} devices"
        )


def steps_per_call(config: ml_collections.ConfigDict) -> int:
    """As asked; a CPU's steps are long, and slow in a loop: see `make_train_steps`."""
    default = 1 if jax.default_backend() == "cpu" else 8
    return config.train.steps_per_call or default


def _open_feed(config, source, splits, test_classes, mesh, programs) -> feed.Feed:
    """The images of a split on the devices, or on their way to them."""
    if not source.resident:
        return feed.streamed(
            source,
            mesh,
            steps_per_call=steps_per_call(config),
            prefetch_bytes=config.data.prefetch_bytes,
        )
    train = (splits.labeled, splits.unlabeled, splits.valid)
    used = {
        "train": np.sort(np.concatenate(train)),
        "test": np.flatnonzero(test_classes >= 0),
    }
    return feed.resident(
        source, used, mesh, programs.gather, steps_per_call=steps_per_call(config)
    )


def build_model(
    config: ml_collections.ConfigDict, method: Method, *, native: bool = False
):
    """The network of a config, with the heads that the method asks for."""
    model = config.model
    return models.build(
        model.name,
        method.heads,
        depth=model.depth,
        width=model.width,
        dtype=model.dtype,
        bn_decay=model.bn_decay,
        native=native,
    )


def build_optimizer(
    config: ml_collections.ConfigDict, schedule: Schedule
) -> optax.GradientTransformation:
    """The optimizer of a config, its schedule in steps."""
    train = config.train
    return make_optimizer(
        train.learning_rate,
        train.lr_schedule,
        schedule.total_steps,
        name=train.optimizer,
        weight_decay=train.weight_decay,
    )


def initial_state(run: Run) -> TrainState:
    """The state at step 0, on the devices."""
    image_shape, seed = run.source.image_shape, run.config.seed
    params, stats = models.initialize(run.module, image_shape, seed)
    method_state = run.method.init(
        jax.random.fold_in(run.key, METHOD_KEY),
        params,
        len(run.splits.unlabeled),
        jnp.asarray(run.hidden) if run.method.reads_hidden_labels else None,
    )
    return sharding.replicate(
        init_state(run.optimizer, params, stats, method_state), run.mesh
    )
