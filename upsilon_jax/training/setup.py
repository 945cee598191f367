"""What stays the same while a run goes on: data, split, method, compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.sharding import Mesh

from upsilon_jax import models
from upsilon_jax.config import Schedule, build_method, make_schedule
from upsilon_jax.config.from_data import choices, complete, draw_splits, open_source
from upsilon_jax.data.source import Source
from upsilon_jax.data.splits import relabel
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import Method
from upsilon_jax.runtime import sharding
from upsilon_jax.training import feed
from upsilon_jax.training.step import (
    Pixels,
    Programs,
    init_state,
    make_optimizer,
    make_programs,
)
from upsilon_jax.types import Splits, TrainState

# Purposes of the run's root key.
METHOD_KEY, TRAIN_KEY, REFRESH_KEY = range(3)


class Run(NamedTuple):
    """All that training needs and never changes."""

    config: ml_collections.ConfigDict  # complete: nothing is left to choose
    source: Source
    splits: Splits
    num_classes: int
    train_classes: np.ndarray  # of all train images, in the split's numbering
    test_classes: np.ndarray  # ID 0 .. C-1, then OOD; -1 for all others
    method: Method
    schedule: Schedule
    mesh: Mesh
    programs: Programs
    feed: feed.Feed
    steps_per_call: int
    key: jax.Array
    notes: tuple[str, ...]  # lines for the person who started it

    @property
    def hidden(self) -> np.ndarray:
        """[N] true classes of D_u: for diagnostics, and for the strategies only."""
        return self.train_classes[self.splits.unlabeled]


def prepare(
    config: ml_collections.ConfigDict,
    *,
    mesh: Mesh | None = None,
    sibling: Run | None = None,
) -> Run:
    """Opens the data and builds what a valid config describes.

    Args:
      config: see `upsilon_jax/config/defaults.py`.
      mesh: the devices to use; None for all of them.
      sibling: a run that differs in its seed only. Its data serve this run too, and on
        the same mesh its compiled functions and resident images.
    """
    source = sibling.source if sibling else open_source(config)
    splits = draw_splits(config, source)
    num_classes = splits.num_classes
    asked, config = config, complete(config, source, splits)
    num_ood = len(splits.classes) - num_classes
    method = build_method(config, num_classes, num_ood, len(splits.unlabeled))
    if method.reads_hidden_labels and source.has_unlabeled:
        raise ConfigError(
            f"method.name={config.method.name!r}: reads the true classes of the "
            f"unlabeled images, which {source.name} does not have"
        )
    schedule = make_schedule(config, method, len(splits.unlabeled))
    mesh = mesh or sharding.data_mesh()
    whole = sharding.replicated(mesh)
    if config.train.batch_size % mesh.size:
        raise ConfigError(
            f"train.batch_size={config.train.batch_size}: must be a multiple of the "
            f"{mesh.size} devices"
        )
    steps_per_call = config.train.steps_per_call or _default_steps_per_call()
    if sibling and sibling.mesh == mesh:
        programs, images = sibling.programs, sibling.feed
    else:
        programs = make_programs(
            method,
            models.forward_of(build_model(config, method, native=mesh.size == 1)),
            build_optimizer(config, schedule),
            Pixels(source.mean, source.std, config.data.augmentation, config.data.flip),
            mesh,
            ema_decay=config.train.ema_decay,
            steps_per_call=steps_per_call,
        )
        images = open_feed(config, source, mesh, programs)
    classes = lambda labels: relabel(labels, source.class_names, splits.classes)
    return Run(
        config=config,
        source=source,
        splits=splits,
        num_classes=num_classes,
        train_classes=classes(source.train_labels),
        test_classes=classes(source.test_labels),
        method=method,
        schedule=schedule,
        mesh=mesh,
        programs=programs,
        feed=images,
        steps_per_call=steps_per_call,
        key=jax.jit(lambda: jax.random.key(config.seed), out_shardings=whole)(),
        notes=(*source.notes, *choices(asked, config)),
    )


def _default_steps_per_call() -> int:
    """A CPU's steps are long, and slow inside a loop: see `make_train_steps`."""
    return 1 if jax.default_backend() == "cpu" else 8


def open_feed(
    config: ml_collections.ConfigDict, source: Source, mesh: Mesh, programs: Programs
) -> feed.Feed:
    """The images of a source on the devices, or on their way to them."""
    if source.resident:
        return feed.resident(source, mesh, programs.gather)
    return feed.streamed(source, mesh, prefetch_bytes=config.data.prefetch_bytes)


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


def build_optimizer(config: ml_collections.ConfigDict, schedule: Schedule):
    """The optimizer of a config, its schedule in steps."""
    return make_optimizer(
        config.train.learning_rate, config.train.lr_schedule, schedule.total_steps
    )


def initial_state(run: Run) -> TrainState:
    """The state at step 0, on the devices."""
    module = build_model(run.config, run.method)
    params, stats = models.initialize(module, run.source.image_shape, run.config.seed)
    method_state = run.method.init(
        jax.random.fold_in(run.key, METHOD_KEY),
        params,
        len(run.splits.unlabeled),
        jnp.asarray(run.hidden) if run.method.reads_hidden_labels else None,
    )
    optimizer = build_optimizer(run.config, run.schedule)
    return sharding.replicate(
        init_state(optimizer, params, stats, method_state), run.mesh
    )
