"""A preset per method: the hyperparameters of its factory as config fields.

Defaults are read from the factory's signature, so they stand in one place. What is
stated here is what depends on the length of training (`_percent` of all steps,
`_epochs`), and what a method changes in the common setting.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict, FieldReference
from ml_collections.config_dict import placeholder

from upsilon_jax.config.fields import default_config
from upsilon_jax.config.flat import flatten
from upsilon_jax.config.schedule import steps_field
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import BASES, SUFFIXES, Method, resolve, split_name

# Keywords of a method's factory that the run fills in: they are no config fields.
RUN_KNOWN = ("num_ood_classes", "pseudo_batches", "start_steps")

# Methods of offline pseudo-labeling take τ, γ, K and the ramp from the benchmark.
PSEUDO_LABEL_FAMILY = (
    "pl pl_reweight rpl sec upsilon upsilon_k1 upsilon_ent upsilon_sd"
).split()

# Methods that use no unlabeled image at all.
SUPERVISED = ("baseline",)

# Methods that use unlabeled images from the first step: no pre-training.
NOT_PRETRAINED = (
    "pi_model mean_teacher vat mixmatch fixmatch uasd ds3l openmatch orca "
    "re_assigned open_set oracle softmatch freematch iomatch ssb dac"
).split()

# Held-out images of each class for methods that look at some.
VALID_PER_CLASS = {"uasd": 50}

# Fields of `method`; x_percent or x_epochs takes the place of the factory's x_steps.
PRESETS: Mapping[str, Mapping[str, int]] = {
    "pi_model": {"ramp_percent": 40},
    "mean_teacher": {"ramp_percent": 40},
    "vat": {"ramp_percent": 40},
    "mixmatch": {"ramp_percent": 26},  # 16,384 of 62,800 steps
    "uasd": {"start_percent": 20, "ramp_percent": 40},
    "ds3l": {"ramp_percent": 40},
    "openmatch": {"start_epochs": 10},
    "iomatch": {"start_epochs": 1},
    "dac": {"start_epochs": 1},
    "ssb": {"start_percent": 93},  # 475 of 512 epochs
}


def factories(name: str) -> tuple[Callable[..., Method], Callable[..., Method] | None]:
    """Whose keywords are the fields `method.*`, and whose `method.upsilon.*`.

    The second is None unless the method is composed ("fixmatch+upsilon").
    """
    base, suffix = split_name(name)
    if suffix is None:
        return resolve(name), None
    return BASES[base], SUFFIXES[suffix]


def with_method(
    config: ConfigDict, name: str, **benchmark: Mapping[str, Any]
) -> ConfigDict:
    """Adds `config.method` for a method, with a benchmark's own values.

    A composed method ("fixmatch+upsilon") has the fields and values of both its parts,
    those of the second under `method.upsilon`; it is pre-trained as the Υ-Model is.

    Args:
      config: the config of a benchmark, without `method`.
      name: a key of METHODS, or a composed name.
      **benchmark: hyperparameters by method name; `pseudo_label` stands for the whole
        family of offline pseudo-labeling. A value that a method pins (K = 0 of "rpl")
        is not overwritten.

    Returns:
      The config.
    """
    factory, around = factories(name)
    base = split_name(name)[0]
    common = benchmark.get("pseudo_label", {})
    fields = factory_fields(factory, common if base in PSEUDO_LABEL_FAMILY else {})
    fields.update(benchmark.get(base, {}))
    for field, value in PRESETS.get(base, {}).items():
        fields.pop(steps_field(field), None)
        fields[field] = value
    if around is not None:
        fields["upsilon"] = factory_fields(around, common)
    elif base in NOT_PRETRAINED:
        config.train.pretrain_epochs = 0
    config.method = ConfigDict({"name": name, **fields})
    if base in VALID_PER_CLASS:
        config.data.valid_per_class = VALID_PER_CLASS[base]
    return config


@functools.cache
def usual_fields(method: str) -> Mapping[str, Any]:
    """{"train.epochs": 400, ...}: every field of a method at its default.

    An older config lacks fields that were added since: their defaults leave it as it
    was.
    """
    try:
        return flatten(with_method(default_config(), method))
    except ConfigError:  # a method that is no more
        return flatten(default_config())


def own_data_config(source: str, method: str) -> ConfigDict:
    """The common setting for data of one's own, whose size is not known beforehand.

    Args:
      source: "folder" or "npz".
      method: as in `with_method`.
    """
    config = default_config(own_data=source)
    config.data.name = source
    config.data.labels_per_class = 0  # all there are
    config.data.num_unlabeled = 0  # all there are
    config.data.mismatch = placeholder(float)  # not known
    config.model.update(depth=16, width=2, bn_decay=0.95)
    train = config.train
    train.ema_decay = 0.99  # runs may have but a few hundred steps
    # Chosen from the number of images and classes (`suggestions.py`).
    train.batch_size = placeholder(int)
    train.epochs = placeholder(int)
    train.pretrain_epochs = placeholder(int)
    chosen = dict(num_clusters=placeholder(int), ood_threshold=placeholder(float))
    return with_method(config, method, pseudo_label=chosen)


def factory_fields(
    factory: Callable[..., Method], values: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Keyword-only hyperparameters of a factory and their defaults.

    Args:
      factory: see METHODS.
      values: take the place of defaults, but for those that a partial factory pins.
    """
    fields = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in RUN_KNOWN:
            continue
        fields[name] = parameter.default
        if parameter.default is None:
            kind = int if "int" in str(parameter.annotation) else float
            fields[name] = placeholder(kind)
    pinned, given = getattr(factory, "keywords", {}), values or {}
    replaced = fields.keys() & given.keys() - pinned.keys()
    fields |= {name: given[name] for name in replaced}
    parameters = inspect.signature(factory).parameters
    for name in fields:
        # A number, or "auto"; K is a number again before the factory sees it.
        annotation = str(parameters[name].annotation)
        if name == "num_clusters" or "float | str" in annotation:
            fields[name] = of_any_type(fields[name])
    return fields


def of_any_type(value: Any) -> FieldReference:
    """A field whose value may change its type; its rule says which may be."""
    if isinstance(value, FieldReference):
        value = value.get()
    return FieldReference(value, field_type=object)
