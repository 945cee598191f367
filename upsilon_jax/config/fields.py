"""Every field of a config: its default, its rule, and what it says.

Defaults are the paper's common setting; a benchmark's file states only what differs.
Durations are in epochs; an epoch is one pass over the unlabeled set. The fields
`method.*` are the keywords of the method's factory, which has their defaults and says
what they mean: here are their rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import ml_collections
from ml_collections.config_dict import placeholder

from upsilon_jax.config.rules import (
    DECAY,
    FRACTION,
    MOST_COUNT,
    POSITIVE,
    Rule,
    at_least,
    between,
    number,
    one_of,
    whole,
)
from upsilon_jax.data.source import OWN_FIELDS, SOURCES
from upsilon_jax.data.streams import DEFAULT_PREFETCH_BYTES
from upsilon_jax.data.unseen import UNSEEN
from upsilon_jax.kernels.confidence import RANGES, SCORES
from upsilon_jax.kernels.explore import SOLVERS
from upsilon_jax.kernels.views import VIEWS
from upsilon_jax.methods.pseudo_labels import NORMALIZE, PSEUDO_BATCHES

# data.residency -> whether images are held in memory; None: if they are few enough.
RESIDENCY: Mapping[str, bool | None] = {"auto": None, "resident": True, "stream": False}


def _models() -> Collection[str]:
    from upsilon_jax import models  # late: it loads flax

    return models.MODELS


class Field(NamedTuple):
    """One field of a config."""

    default: Any  # None: no value; `says` tells what then happens
    rule: Rule | None  # None: any value of its type
    says: str
    kind: type | None = None  # where the default is None: the type of a value

    @property
    def type(self) -> type | tuple[type, ...]:
        """What a value is; a whole number will do where any number does."""
        kind = self.kind or type(self.default)
        return {float: (int, float), tuple: (tuple, list)}.get(kind, kind)

    def initial(self) -> Any:
        """What stands in a new config."""
        return placeholder(self.kind) if self.default is None else self.default


_DEPTH = Rule(
    lambda value: 10 <= value <= 1300 and (value - 4) % 6 == 0,
    lambda: "6 n + 4, from 10 to 1300",
)

FIELDS: Mapping[str, Field] = {
    "seed": Field(
        0, between(0, MOST_COUNT), "Of the split, the initial weights and all training."
    ),
    "data.name": Field("", one_of(SOURCES), "The data set."),
    "data.data_dir": Field(
        None, None, "Where tfds keeps its data; None: tfds's default.", str
    ),
    "data.labeled": Field(None, None, "A folder with one sub-folder a class.", str),
    "data.unlabeled": Field(None, None, "A folder with any images, at any depth.", str),
    "data.test": Field(
        None, None, "A folder like data.labeled; None holds out a fifth of that.", str
    ),
    "data.channels": Field(
        None, one_of((1, 3)), "None: 1 if all labeled images are grey, else 3.", int
    ),
    "data.path": Field(None, None, "An npz file.", str),
    "data.id_classes": Field(("",), None, "Names of the classes to learn."),
    "data.ood_classes": Field(("",), None, "Names of the foreign classes."),
    "data.labels_per_class": Field(
        400,
        whole(0),
        "Labeled images of each class; 0: all, if D_u is given.",
    ),
    "data.num_unlabeled": Field(20_000, whole(0), "|D_u|; 0: all there are."),
    "data.mismatch": Field(0.5, FRACTION, "The share of D_u from foreign classes."),
    "data.ood_imbalance": Field(
        1.0, at_least(1), "The largest over the smallest foreign class in D_u."
    ),
    "data.valid_per_class": Field(
        0, whole(0), "Held-out images a method may ask for, if any are left."
    ),
    "data.unseen": Field(
        None,
        one_of(UNSEEN),
        "Foreign images from elsewhere that only the end of a run measures: uniform "
        "noise, or the test images of another data set.",
        str,
    ),
    "data.image_size": Field(
        None, whole(4, 8192), "Height and width; None: the data set's own.", int
    ),
    "data.augmentation": Field(
        "paper", one_of(VIEWS), "What weak and strong views of an image are."
    ),
    "data.flip": Field(True, None, "Whether augmentation may mirror images."),
    "data.unlabeled_ratio": Field(
        1, whole(1, 1024), "μ: unlabeled rows of a step for each labeled one."
    ),
    "data.pseudo_batches": Field(
        "selected",
        one_of(PSEUDO_BATCHES),
        "Unlabeled batches from pseudo-labeled images only, or from all of D_u.",
    ),
    "data.residency": Field(
        "auto", one_of(RESIDENCY), "Whether images stay on the device or are streamed."
    ),
    "data.prefetch_bytes": Field(
        DEFAULT_PREFETCH_BYTES,
        whole(1, 2**63 - 1),
        "Of pixels read ahead when streamed.",
    ),
    "model.name": Field("wide_resnet", one_of(_models), "The network."),
    "model.depth": Field(28, _DEPTH, "Layers."),
    "model.width": Field(2, whole(1, 4096), "Channels, in multiples of 16, 32, 64."),
    "model.dtype": Field(
        "float32",
        one_of(("float32", "bfloat16")),
        "Of the computation; parameters stay float32.",
    ),
    "model.bn_decay": Field(
        0.999, DECAY, "Of the running BatchNorm statistics; lower in short runs."
    ),
    "train.epochs": Field(400, whole(1), "Passes over D_u."),
    "train.pretrain_epochs": Field(
        50, whole(0), "E_pt: supervised, before the first pseudo-labels; < epochs."
    ),
    "train.refresh_epochs": Field(
        2, whole(1), "E_pl: between two refreshes of the pseudo-labels."
    ),
    "train.batch_size": Field(
        128,
        whole(1),
        "Labeled rows of a step; data.unlabeled_ratio times as many unlabeled ones.",
    ),
    "train.optimizer": Field(
        "adam", one_of(("adam", "sgd")), "sgd: with Nesterov momentum 0.9."
    ),
    "train.learning_rate": Field(3e-3, POSITIVE, "Of the optimizer, at the start."),
    "train.lr_schedule": Field(
        "step",
        one_of(("step", "cosine", "constant")),
        "step: a fifth of the rate after 80 % of training; cosine: times cos(7π/16 · "
        "share of training), down to a fifth.",
    ),
    "train.weight_decay": Field(
        0.0, at_least(0), "λ of λ/2 · |w|² in the loss; not of biases and BatchNorm."
    ),
    "train.ema_decay": Field(
        0.999, DECAY, "Of the average of the weights that is evaluated."
    ),
    "train.report_epochs": Field(
        20, whole(1), "The reported accuracy is the mean of so many last epochs."
    ),
    "train.eval_epochs": Field(
        None,
        whole(1),
        "Between two evaluations, and each of the last report_epochs has one; "
        "None: 1 up to 50 epochs, epochs // 50 beyond.",
        int,
    ),
    "train.save_epochs": Field(1, whole(1), "Between two checkpoints."),
    "train.keep_checkpoints": Field(3, whole(1), "The newest ones."),
    "train.log_steps": Field(
        50, whole(1), "Between two looks at the loss, the only waits for the device."
    ),
    "train.num_seeds": Field(
        1, whole(1, 10_000), "seed, seed + 1, ..., each in a folder seed_S of its own."
    ),
    "train.steps_per_call": Field(
        None, whole(1, 1000), "Steps in one dispatch; None: 1 on a CPU, else 8.", int
    ),
}

# How a run is computed, kept and watched: its numbers are the same whatever these are.
WITHOUT_EFFECT = frozenset(
    {
        "data.data_dir",
        "data.residency",
        "data.prefetch_bytes",
        "train.eval_epochs",  # each of the reported epochs is evaluated in any case
        "train.save_epochs",
        "train.keep_checkpoints",
        "train.log_steps",
        "train.num_seeds",
        "train.steps_per_call",
    }
)

_WEIGHTS = (
    "loss_weight ova_weight open_weight negative_weight entropy_weight "
    "consistency_weight pair_weight fairness_weight diversity_weight neighbor_weight"
).split()

# By the last part of the name: `method.x`, and `method.upsilon.x` of composed methods.
METHOD_RULES: Mapping[str, Rule] = {
    # scores and thresholds; those that a `score` stands beside have its range
    "threshold": FRACTION,
    "ood_threshold": number(FRACTION, auto=True),
    "initial_threshold": FRACTION,
    "open_threshold": FRACTION,
    "negative_threshold": FRACTION,
    "score": one_of(SCORES),
    # clusters
    "num_clusters": number(whole(0), auto=True),
    "epsilon": POSITIVE,
    "num_iters": whole(1),
    "solver": one_of(SOLVERS),
    "relaxation": POSITIVE,
    "mass": between(1e-6, 1),
    "mass_ramp_steps": whole(0),
    # weights of terms, and when they count
    **dict.fromkeys(_WEIGHTS, at_least(0)),
    "max_weight": POSITIVE,
    "ramp_steps": whole(0),
    "ramp_percent": between(0, 100),
    "start_percent": between(0, 100),
    "start_epochs": whole(0),
    "normalize": one_of(NORMALIZE),
    "labeler": one_of(("live", "ema")),
    # of single methods
    "labeled_view": one_of(("strong", "weak")),  # fixmatch, openmatch
    "decay": DECAY,  # mean_teacher, softmatch, freematch, dac
    "radius": at_least(0),  # vat
    "xi": POSITIVE,
    "temperature": POSITIVE,  # mixmatch, dac
    "alpha": at_least(0),
    "meta_learning_rate": POSITIVE,  # ds3l
    "weight_learning_rate": POSITIVE,
    "num_hidden": whole(1, 2**16),
    "max_margin": FRACTION,  # orca
    "assignment_seed": whole(0),  # re_assigned
    "num_sigmas": POSITIVE,  # softmatch
    "align_batches": whole(0, 10_000),  # iomatch
    "num_heads": whole(1, 1000),  # dac, which compares each with each
    "weight_power": at_least(0),
}
_THRESHOLDS = ("threshold", "ood_threshold")


def rule_of(field: str, flat: Mapping[str, Any]) -> Rule | None:
    """The rule of a field of the config `flat`; None if it may have any value."""
    if field in FIELDS:
        return FIELDS[field].rule
    section, _, name = field.rpartition(".")
    score = str(flat.get(f"{section}.score"))  # a list cannot be looked up
    if name in _THRESHOLDS and score in RANGES:
        estimated = name == "ood_threshold" and score == "confidence"
        return number(between(*RANGES[score]), auto=estimated)
    return METHOD_RULES.get(name)


def default_config(*, own_data: str | None = None) -> ml_collections.ConfigDict:
    """A config with the defaults, without `method`.

    Args:
      own_data: "folder" or "npz" adds the fields that only these have.
    """
    special = {f"data.{field}" for fields in OWN_FIELDS.values() for field in fields}
    wanted = {f"data.{field}" for field in OWN_FIELDS.get(own_data or "", ())}
    config = ml_collections.ConfigDict({"data": {}, "model": {}, "train": {}})
    for name, field in FIELDS.items():
        section, _, last = name.rpartition(".")
        if name not in special - wanted:
            (config[section] if section else config)[last] = field.initial()
    return config
