"""A preset per method: the hyperparameters of its factory as config fields.

Defaults are read from the factory's signature, so they stand in one place. What is
stated here is what depends on the length of training (`_percent` of all steps,
`_epochs`), and what a method changes in the common setting.
"""

import inspect

import ml_collections
from ml_collections.config_dict import placeholder

from upsilon_jax.config import RUN_KNOWN
from upsilon_jax.methods import METHODS

# Methods of offline pseudo-labeling take τ, γ, K and the ramp from the benchmark.
PSEUDO_LABEL_FAMILY = (
    "pl pl_reweight rpl sec upsilon upsilon_k1 upsilon_ent upsilon_sd"
).split()

# method -> {section: {field: value}}; under "method", x_percent or x_epochs takes the
# place of the factory's x_steps.
PRESETS = {
    "pi_model": {"train": {"pretrain_epochs": 0}, "method": {"ramp_percent": 40}},
    "mean_teacher": {"train": {"pretrain_epochs": 0}, "method": {"ramp_percent": 40}},
    "vat": {"train": {"pretrain_epochs": 0}, "method": {"ramp_percent": 40}},
    # 16,384 of 62,800 steps
    "mixmatch": {"train": {"pretrain_epochs": 0}, "method": {"ramp_percent": 26}},
    "fixmatch": {"train": {"pretrain_epochs": 0}},
    "uasd": {
        "train": {"pretrain_epochs": 0},
        "data": {"valid_per_class": 50},
        "method": {"start_percent": 20, "ramp_percent": 40},
    },
    "ds3l": {"train": {"pretrain_epochs": 0}, "method": {"ramp_percent": 40}},
    "openmatch": {"train": {"pretrain_epochs": 0}, "method": {"start_epochs": 10}},
    "orca": {"train": {"pretrain_epochs": 0}},
    "re_assigned": {"train": {"pretrain_epochs": 0}},
    "open_set": {"train": {"pretrain_epochs": 0}},
    "oracle": {"train": {"pretrain_epochs": 0}},
}


def with_method(
    config: ml_collections.ConfigDict, name: str, **benchmark: dict
) -> ml_collections.ConfigDict:
    """Adds `config.method` for a method, with a benchmark's own values.

    Args:
      config: the config of a benchmark, without `method`.
      name: a key of METHODS.
      **benchmark: hyperparameters by method name; `pseudo_label` stands for the whole
        family of offline pseudo-labeling. A value that a method pins (K = 0 of "rpl")
        is not overwritten.

    Returns:
      The config.
    """
    config.method = ml_collections.ConfigDict({"name": name})
    if name not in METHODS:  # `config.validate` says so, with the near names
        return config
    preset = PRESETS.get(name, {})
    for section in ("data", "train"):
        config[section].update(preset.get(section, {}))
    fields = factory_fields(METHODS[name])
    pinned = getattr(METHODS[name], "keywords", {})
    if name in PSEUDO_LABEL_FAMILY:
        for field, value in benchmark.get("pseudo_label", {}).items():
            if field in fields and field not in pinned:
                fields[field] = value
    fields.update(benchmark.get(name, {}))
    for field, value in preset.get("method", {}).items():
        fields.pop(field.rsplit("_", 1)[0] + "_steps", None)
        fields[field] = value
    config.method.update(fields)
    return config


def factory_fields(factory) -> dict:
    """Keyword-only hyperparameters of a factory and their defaults."""
    fields = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in RUN_KNOWN:
            continue
        fields[name] = parameter.default
        if parameter.default is None:
            kind = int if "int" in str(parameter.annotation) else float
            fields[name] = placeholder(kind)
    return fields
