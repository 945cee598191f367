"""What a config leaves to the data: the source, the split, and fields that are None."""

from __future__ import annotations

import ml_collections

from upsilon_jax.config.rules import fill, flatten
from upsilon_jax.config.suggestions import suggest
from upsilon_jax.data.source import OWN_FIELDS, Source, load_source
from upsilon_jax.data.splits import make_own_splits, make_splits
from upsilon_jax.errors import ConfigError
from upsilon_jax.types import Splits

# Where the fields of `defaults.Defaults` stand in a config.
_SECTIONS = {
    "batch_size": "train",
    "epochs": "train",
    "pretrain_epochs": "train",
    "num_clusters": "method",
    "ood_threshold": "method",
}


def open_source(config: ml_collections.ConfigDict) -> Source:
    """The data set of a config."""
    data = config.data
    return load_source(
        data.name,
        data_dir=data.data_dir,
        image_size=data.image_size,
        resident={"auto": None, "resident": True, "stream": False}[data.residency],
        **{field: data.get(field) for field in OWN_FIELDS.get(data.name, ())},
    )


def draw_splits(config: ml_collections.ConfigDict, source: Source) -> Splits:
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


def is_complete(config: ml_collections.ConfigDict) -> bool:
    """Whether `complete` would find nothing to do; known without opening the data."""
    flat = flatten(config)
    left = [
        k for k, section in _SECTIONS.items() if flat.get(f"{section}.{k}", 0) is None
    ]
    return config.data.name not in OWN_FIELDS and not left


def complete(
    config: ml_collections.ConfigDict, source: Source, splits: Splits
) -> ml_collections.ConfigDict:
    """A valid copy in which what was left None is chosen from the data.

    The same data give the same values, so a run that is resumed finds its own config.
    """
    suggested = suggest(
        len(splits.labeled),
        len(splits.unlabeled),
        splits.num_classes,
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
