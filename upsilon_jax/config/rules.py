"""Configs: what is allowed, and how epochs become steps.

Every complaint is one line that names the field, its value and what is allowed, and is
raised before anything is computed.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_collections

from upsilon_jax.data.source import nearest
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import METHODS, Method

# Keywords of a method's factory that the run fills in: they are no config fields.
RUN_KNOWN = ("num_ood_classes", "pseudo_batches", "start_steps")

ConfigDict = ml_collections.ConfigDict


class Rule(NamedTuple):
    """What a field may be."""

    allowed: str
    holds: Callable[[Any], bool]


def _one_of(*names: str) -> Rule:
    return Rule(f"one of {', '.join(names)}", lambda value: value in names)


def _at_least(least: float) -> Rule:
    return Rule(f"a number ≥ {least:g}", lambda v: math.isfinite(v) and v >= least)


def _between(low: float, high: float) -> Rule:
    return Rule(f"in [{low:g}, {high:g}]", lambda v: low <= v <= high)


_POSITIVE = Rule("a number > 0", lambda v: math.isfinite(v) and v > 0)
_FRACTION = _between(0, 1)
_DECAY = Rule("in [0, 1)", lambda v: 0 <= v < 1)

RULES: Mapping[str, Rule] = {
    "seed": _between(0, 2**31 - 1),
    "data.labels_per_class": _at_least(0),  # 0: all, where the data set has its own D_u
    "data.num_unlabeled": _at_least(0),  # 0: all there are
    "data.mismatch": _FRACTION,
    "data.ood_imbalance": _at_least(1),
    "data.valid_per_class": _at_least(0),
    "data.image_size": _at_least(4),
    "data.augmentation": _one_of("paper", "randaug", "weak", "none"),
    "data.pseudo_batches": _one_of("selected", "masked"),
    "data.residency": _one_of("auto", "resident", "stream"),
    "model.name": _one_of("wide_resnet"),
    "model.depth": Rule("6 n + 4, at least 10", lambda v: v >= 10 and (v - 4) % 6 == 0),
    "model.width": _at_least(1),
    "model.dtype": _one_of("float32", "bfloat16"),
    "model.bn_decay": _DECAY,
    "train.epochs": _at_least(1),
    "train.pretrain_epochs": _at_least(0),
    "train.refresh_epochs": _at_least(1),
    "train.batch_size": _at_least(1),
    "train.learning_rate": _POSITIVE,
    "train.lr_schedule": _one_of("step", "constant"),
    "train.ema_decay": _DECAY,
    "train.report_epochs": _at_least(1),
    "train.save_epochs": _at_least(1),
    "train.keep_checkpoints": _at_least(1),
    "train.log_steps": _at_least(1),
    "train.num_seeds": _at_least(1),
    "train.steps_per_call": _at_least(1),
    "method.num_clusters": _at_least(0),
    "method.score": _one_of("confidence", "entropy", "margin"),
    "method.epsilon": _POSITIVE,
    "method.num_iters": _at_least(1),
    "method.solver": _one_of("sinkhorn", "newton"),
    "method.loss_weight": _at_least(0),
    "method.ramp_steps": _at_least(0),
    "method.ramp_percent": _between(0, 100),
    "method.start_percent": _between(0, 100),
    "method.start_epochs": _at_least(0),
    "method.normalize": _one_of("unlabeled", "selected"),
    "method.labeler": _one_of("live", "ema"),
}


def validate(config: ConfigDict) -> None:
    """Raises a ConfigError for the first field that is out of range."""
    name = config.method.name
    if name not in METHODS:
        raise ConfigError(f"method.name={name!r}: {nearest(name, METHODS)}")
    flat = flatten(config)
    for field, rule in RULES.items():
        value = flat.get(field)
        if value is not None and not rule.holds(value):
            raise ConfigError(f"{field}={value!r}: must be {rule.allowed}")
    _validate_thresholds(flat)
    pretrain, epochs = flat["train.pretrain_epochs"], flat["train.epochs"]
    if None not in (pretrain, epochs) and pretrain > epochs:
        raise ConfigError(
            f"train.pretrain_epochs={pretrain}: must be at most train.epochs={epochs}"
        )


def _validate_thresholds(flat: Mapping[str, Any]) -> None:
    low = -math.inf if flat.get("method.score") == "entropy" else 0
    high = 0 if flat.get("method.score") == "entropy" else 1
    for field in ("method.threshold", "method.ood_threshold"):
        value = flat.get(field)
        if value is not None and not low <= value <= high:
            raise ConfigError(f"{field}={value!r}: must be in [{low:g}, {high:g}]")
    threshold, ood_threshold = (
        flat.get("method.threshold"),
        flat.get("method.ood_threshold"),
    )
    if None not in (threshold, ood_threshold) and ood_threshold > threshold:
        raise ConfigError(
            f"method.ood_threshold={ood_threshold!r} (γ): must be at most "
            f"method.threshold={threshold!r} (τ)"
        )


class Schedule(NamedTuple):
    """The clock of a run, and the only place that turns epochs into steps."""

    steps_per_epoch: int
    epochs: int
    pretrain_epochs: int
    refresh_epochs: int | None  # None: the method is never refreshed
    save_epochs: int

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.epochs

    def refresh_due(self, epoch: int) -> bool:
        """Whether the labels are renewed after `epoch` epochs (Algorithm 1, line 7).

        Differs from the paper: it prints `e ≤ E_pt`, which would freeze P for ever when
        training with it begins. Always due at E_pt, so that no PL epoch lacks labels;
        never after the last epoch, where nothing would use them.
        """
        used = self.pretrain_epochs <= epoch < self.epochs
        if self.refresh_epochs is None or not used:
            return False
        return epoch == self.pretrain_epochs or epoch % self.refresh_epochs == 0

    def save_due(self, epoch: int) -> bool:
        """Whether a checkpoint is written after `epoch` epochs; always at the end."""
        return epoch % self.save_epochs == 0 or epoch == self.epochs


def make_schedule(config: ConfigDict, method: Method, num_unlabeled: int) -> Schedule:
    """An epoch is one pass over D_u: ceil(|D_u| / batch) steps."""
    refresh = method.refresh_epochs or config.train.refresh_epochs
    return Schedule(
        steps_per_epoch=steps_per_epoch(config, num_unlabeled),
        epochs=config.train.epochs,
        pretrain_epochs=config.train.pretrain_epochs,
        refresh_epochs=refresh if method.refresh else None,
        save_epochs=config.train.save_epochs,
    )


def steps_per_epoch(config: ConfigDict, num_unlabeled: int) -> int:
    """Batches of one pass over D_u, the last one filled up."""
    return -(-num_unlabeled // config.train.batch_size)


def build_method(
    config: ConfigDict, num_classes: int, num_ood_classes: int, num_unlabeled: int
) -> Method:
    """The method of a config, its durations in steps, with what only a run knows."""
    factory = METHODS[config.method.name]
    per_epoch = steps_per_epoch(config, num_unlabeled)
    given = {k: v for k, v in config.method.to_dict().items() if k != "name"}
    kwargs = {
        "num_ood_classes": num_ood_classes,
        "pseudo_batches": config.data.pseudo_batches,
        "start_steps": per_epoch * config.train.pretrain_epochs,
    }
    for field, value in given.items():
        stem, _, unit = field.rpartition("_")
        if unit == "percent":
            kwargs[f"{stem}_steps"] = round(
                value / 100 * per_epoch * config.train.epochs
            )
        elif unit == "epochs":
            kwargs[f"{stem}_steps"] = round(value * per_epoch)
        else:
            kwargs[field] = value
    accepted = inspect.signature(factory).parameters
    return factory(
        num_classes, **{k: v for k, v in kwargs.items() if k in accepted or k in given}
    )


def of_seed(config: ConfigDict, seed: int) -> ConfigDict:
    """The config of one seed of several: that of a run of its own."""
    config = config.copy_and_resolve_references()
    config.seed, config.train.num_seeds = seed, 1
    return config


def fill(config: ConfigDict, values: Mapping[str, Any]) -> ConfigDict:
    """A valid copy in which fields that are None take these values."""
    flat = flatten(config)
    left = {k: value for k, value in values.items() if flat.get(k, value) is None}
    config = config.copy_and_resolve_references()
    config.update_from_flattened_dict(left)
    validate(config)
    return config


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train.epochs": 400, ...}."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, Mapping | ConfigDict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line for each field in which two configs differ."""
    old, new = flatten(old), flatten(new)
    plain = lambda value: list(value) if isinstance(value, tuple) else value
    return [
        f"{field}: {old.get(field, 'absent')!r} → {new.get(field, 'absent')!r}"
        for field in sorted(old.keys() | new.keys())
        if plain(old.get(field)) != plain(new.get(field))
    ]
