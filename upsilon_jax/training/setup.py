"""What stays the same while a run goes on: data, split, method, compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.sharding import Mesh

from upsilon_jax import models
from upsilon_jax.config import (
    ConfigError,
    Schedule,
    build_method,
    fill,
    flatten,
    make_schedule,
)
from upsilon_jax.config import suggestions as defaults
from upsilon_jax.data.classes import resolve_classes
from upsilon_jax.data.source import OWN_FIELDS, Source, load_source
from upsilon_jax.data.splits import make_own_splits, make_splits, relabel
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

# Where the fields of `defaults.Defaults` stand in a config.
_SECTIONS = {
    "batch_size": "train",
    "epochs": "train",
    "pretrain_epochs": "train",
    "num_clusters": "method",
    "ood_threshold": "method",
}


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
    splits, num_classes = draw_splits(config, source)
    asked, config = config, complete(config, source, splits, num_classes)
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
    if source.in_memory:
        return feed.resident(source, mesh, programs.gather)
    return feed.streamed(source, mesh, prefetch_bytes=config.data.prefetch_bytes)


def open_source(config: ml_collections.ConfigDict) -> Source:
    """The data set of a config."""
    data = config.data
    return load_source(
        data.name,
        data_dir=data.data_dir,
        image_size=data.image_size,
        in_memory={"auto": None, "resident": True, "stream": False}[data.residency],
        **{field: data.get(field) for field in OWN_FIELDS.get(data.name, ())},
    )


def draw_splits(
    config: ml_collections.ConfigDict, source: Source
) -> tuple[Splits, int]:
    """The split of a config, and C."""
    data = config.data
    if source.has_unlabeled:
        splits = make_own_splits(
            source.train_labels,
            source.test_labels,
            source.class_names,
            labels_per_class=data.labels_per_class,
            num_unlabeled=data.num_unlabeled,
            valid_per_class=data.valid_per_class,
            seed=config.seed,
        )
        return splits, len(splits.classes)
    if not data.labels_per_class or data.mismatch is None:
        raise ConfigError(
            f"data.labels_per_class={data.labels_per_class} and data.mismatch="
            f"{data.mismatch}: must be given, {source.name} has no unlabeled images of "
            "its own and they are drawn from its classes"
        )
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


def is_complete(config: ml_collections.ConfigDict) -> bool:
    """Whether `complete` would find nothing to do; known without opening the data."""
    flat = flatten(config)
    left = [
        k for k, section in _SECTIONS.items() if flat.get(f"{section}.{k}", 0) is None
    ]
    return config.data.name not in OWN_FIELDS and not left


def complete(
    config: ml_collections.ConfigDict, source: Source, splits: Splits, num_classes: int
) -> ml_collections.ConfigDict:
    """A valid copy in which what was left None is chosen from the data.

    The same data give the same values, so a run that is resumed finds its own config.
    """
    suggested = defaults.suggest(
        len(splits.labeled),
        len(splits.unlabeled),
        num_classes,
        batch_size=config.train.batch_size,
        epochs=config.train.epochs,
    )
    return fill(
        config,
        {f"data.{field}": value for field, value in source.chosen.items()}
        | {f"{_SECTIONS[k]}.{k}": value for k, value in suggested._asdict().items()},
    )


def choices(
    asked: ml_collections.ConfigDict, config: ml_collections.ConfigDict
) -> tuple[str, ...]:
    """A line with what `complete` has chosen, none if that is nothing."""
    before = flatten(asked)
    chosen = [f"{k}={v:g}" for k, v in flatten(config).items() if before[k] != v]
    if not chosen:
        return ()
    return (
        "chosen from the data (--config.FIELD=VALUE changes one): " + ", ".join(chosen),
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
