"""What a config leaves to the data: the source, the split, and fields that are None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from upsilon_jax.config.fields import RESIDENCY
from upsilon_jax.config.flat import auto_clusters, flatten
from upsilon_jax.config.suggestions import suggest
from upsilon_jax.config.validation import validate
from upsilon_jax.data.source import CHOSEN_FIELDS, OWN_FIELDS, Source, load_source
from upsilon_jax.data.splits import make_own_splits, make_splits
from upsilon_jax.data.unseen import load_unseen
from upsilon_jax.errors import ConfigError
from upsilon_jax.types import Splits

# The sections of a config that have the fields of `suggestions.Suggestions`.
_SECTIONS = {
    "batch_size": ("train",),
    "epochs": ("train",),
    "pretrain_epochs": ("train",),
    "num_clusters": ("method", "method.upsilon"),
    "ood_threshold": ("method", "method.upsilon"),
}


def open_source(config: ConfigDict) -> Source:
    """The data set of a config."""
    data = config.data
    return load_source(
        data.name,
        data_dir=data.data_dir,
        image_size=data.image_size,
        resident=RESIDENCY[data.residency],
        **{field: data.get(field) for field in OWN_FIELDS.get(data.name, ())},
    )


def open_unseen(config: ConfigDict, source: Source, count: int) -> np.ndarray | None:
    """uint8 [m, H, W, C], at most `count` of `data.unseen`; None if it is not set."""
    name = config.data.unseen
    if name is None:
        return None
    return load_unseen(
        name, source, count, seed=config.seed, data_dir=config.data.data_dir
    )


def draw_splits(config: ConfigDict, source: Source) -> Splits:
    """The split of a config."""
    data = config.data
    if source.has_unlabeled:
        return make_own_splits(
            source.train_labels,
            source.test_labels,
            source.class_names,
            labels_per_class=data.labels_per_class,
            num_unlabeled=data.num_unlabeled,
            valid_per_class=data.valid_per_class,
            seed=config.seed,
        )
    if not data.labels_per_class or data.mismatch is None:
        raise ConfigError(
            f"data.labels_per_class={data.labels_per_class} and data.mismatch="
            f"{data.mismatch}: must be given, {source.name} has no unlabeled images of "
            "its own and they are drawn from its classes"
        )
    return make_splits(
        source.train_labels,
        source.test_labels,
        source.class_names,
        id_classes=_spec(data.id_classes),
        ood_classes=_spec(data.ood_classes),
        labels_per_class=data.labels_per_class,
        num_unlabeled=data.num_unlabeled,
        mismatch=data.mismatch,
        valid_per_class=data.valid_per_class,
        ood_imbalance=data.ood_imbalance,
        seed=config.seed,
    )


def _spec(classes: tuple[str, ...]) -> str | tuple[str, ...]:
    """A lone entry may be a rule such as "rest" or "random:6"."""
    return classes[0] if len(classes) == 1 else classes


def left_open(config: ConfigDict) -> set[str]:
    """Fields that the data will choose; known without opening them."""
    fields = {f"data.{name}" for name in CHOSEN_FIELDS.get(config.data.name, ())}
    fields |= {f"{s}.{name}" for name, sections in _SECTIONS.items() for s in sections}
    flat = flatten(config)
    unset = {k for k, value in flat.items() if value is None and k in fields}
    chosen = auto_clusters(flat)
    return unset | ({chosen} if chosen else set())


def complete(config: ConfigDict, source: Source, splits: Splits) -> ConfigDict:
    """A valid copy in which what was left None is chosen from the data.

    The same data give the same values, so a run that is resumed finds its own config.
    """
    suggested = suggest(
        len(splits.labeled),
        len(splits.unlabeled),
        splits.num_classes,
        batch_size=config.train.batch_size,
        epochs=config.train.epochs,
        unlabeled_ratio=config.data.unlabeled_ratio,
    )
    chosen = {f"data.{field}": value for field, value in source.chosen.items()}
    for name, value in suggested._asdict().items():
        chosen |= {f"{section}.{name}": value for section in _SECTIONS[name]}
    return fill(config, chosen)


def fill(config: ConfigDict, values: Mapping[str, Any]) -> ConfigDict:
    """A valid copy in which fields that are None take these values."""
    flat = flatten(config)
    left = {k: value for k, value in values.items() if flat.get(k, value) is None}
    config = config.copy_and_resolve_references()
    config.update_from_flattened_dict(left)
    validate(config)
    return config


def choices(asked: ConfigDict, config: ConfigDict) -> tuple[str, ...]:
    """One line with what `complete` has chosen; no line if nothing was left open."""
    before = flatten(asked)
    shown = lambda value: value if isinstance(value, str) else f"{value:g}"
    chosen = [f"{k}={shown(v)}" for k, v in flatten(config).items() if before[k] != v]
    if not chosen:
        return ()
    return (
        "chosen from the data (--config.FIELD=VALUE changes one): " + ", ".join(chosen),
    )
