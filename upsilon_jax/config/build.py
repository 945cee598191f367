"""From a config to the method that it describes."""

from __future__ import annotations

import inspect

from ml_collections import ConfigDict

from upsilon_jax.config.presets import factories
from upsilon_jax.config.schedule import in_steps, steps_per_epoch
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import Method, resolve


def build_method(
    config: ConfigDict, num_classes: int, num_ood_classes: int, num_unlabeled: int
) -> Method:
    """The method of a valid config, its durations in steps.

    Raises:
      ConfigError: a hyperparameter that does not fit the data.
    """
    fields = config.method.to_dict()
    name = fields.pop("name")
    per_epoch = steps_per_epoch(config, num_unlabeled)
    known_to_the_run = {
        "num_ood_classes": num_ood_classes,
        "pseudo_batches": config.data.pseudo_batches,
        "start_steps": per_epoch * config.train.pretrain_epochs,
    }
    accepted = inspect.signature(factories(name)[0]).parameters
    given = in_steps(fields, steps_per_epoch=per_epoch, epochs=config.train.epochs)
    keywords = {k: v for k, v in known_to_the_run.items() if k in accepted} | given
    try:
        return resolve(name)(num_classes, **keywords)
    except ValueError as error:  # a factory computes nothing: it refuses an argument
        raise ConfigError(f"method {name}: {error}") from error
