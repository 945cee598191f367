"""What stays the same while a run goes on: data, split, method, compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.sharding import Mesh

from upsilon_jax import feed, models, sharding
from upsilon_jax.config import Schedule, build_method, make_schedule
from upsilon_jax.data.classes import resolve_classes
from upsilon_jax.data.source import Source, load_source
from upsilon_jax.data.splits import make_splits, relabel
from upsilon_jax.methods import Method
from upsilon_jax.step import Pixels, Programs, init_state, make_optimizer, make_programs
from upsilon_jax.types import Splits, TrainState

# Purposes of the run's root key.
METHOD_KEY, TRAIN_KEY, REFRESH_KEY = range(3)


class Run(NamedTuple):
    """All that training needs and never changes."""

    config: ml_collections.ConfigDict
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
    key: jax.Array

    @property
    def hidden(self) -> np.ndarray:
        """[N] true classes of D_u: for diagnostics, and for the strategies only."""
        return self.train_classes[self.splits.unlabeled]


def prepare(config: ml_collections.ConfigDict) -> Run:
    """Opens the data and builds what a valid config describes."""
    source = open_source(config)
    splits, num_classes = draw_splits(config, source)
    num_ood = len(splits.classes) - num_classes
    method = build_method(config, num_classes, num_ood, len(splits.unlabeled))
    schedule = make_schedule(config, method, len(splits.unlabeled))
    mesh = sharding.data_mesh()
    programs = make_programs(
        method,
        models.forward_of(build_model(config, method)),
        build_optimizer(config, schedule),
        Pixels(source.mean, source.std, config.data.augmentation, config.data.flip),
        mesh,
        ema_decay=config.train.ema_decay,
    )
    if source.in_memory:
        images = feed.resident(source, mesh, programs.gather)
    else:
        images = feed.streamed(source, mesh, prefetch_bytes=config.data.prefetch_bytes)
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
        key=sharding.replicate(jax.random.key(config.seed), mesh),
    )


def open_source(config: ml_collections.ConfigDict) -> Source:
    """The data set of a config."""
    data = config.data
    return load_source(
        data.name,
        data_dir=data.data_dir,
        image_size=data.image_size,
        in_memory={"auto": None, "resident": True, "stream": False}[data.residency],
    )


def draw_splits(
    config: ml_collections.ConfigDict, source: Source
) -> tuple[Splits, int]:
    """The split of a config, and C."""
    data = config.data
    id_classes, ood_classes = resolve_classes(
        source.class_names, _spec(data.id_classes), _spec(data.ood_classes), config.seed
    )
    splits = make_splits(
        source.train_labels,
        source.test_labels,
        source.class_names,
        id_classes=id_classes,
        ood_classes=ood_classes,
        labels_per_class=data.labels_per_class,
        num_unlabeled=data.num_unlabeled,
        mismatch=data.mismatch,
        valid_per_class=data.valid_per_class,
        ood_imbalance=data.ood_imbalance,
        seed=config.seed,
    )
    return splits, len(id_classes)


def _spec(classes: tuple[str, ...]) -> str | tuple[str, ...]:
    """A lone entry may be a rule such as "rest" or "random:6"."""
    return classes[0] if len(classes) == 1 else classes


def build_model(config: ml_collections.ConfigDict, method: Method):
    """The network of a config, with the heads that the method asks for."""
    model = config.model
    return models.build(
        model.name,
        method.heads,
        depth=model.depth,
        width=model.width,
        dtype=model.dtype,
        bn_decay=model.bn_decay,
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
