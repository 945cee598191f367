"""What a run may be told: every field with its default and its rule.

Also the presets of methods, the values that are chosen from the data, and the clock,
which turns epochs into steps. Config files (`configs/*.py`) import this package and
nothing else. What is done with a config is no business of this folder.
"""

from ml_collections import ConfigDict

from upsilon_jax.config.build import build_method
from upsilon_jax.config.changes import MAY_CHANGE, may_change
from upsilon_jax.config.fields import FIELDS, WITHOUT_EFFECT, Field, default_config
from upsilon_jax.config.flat import differences, flatten, of_seed
from upsilon_jax.config.from_data import fill
from upsilon_jax.config.loading import (
    config_names,
    find_config,
    load_config,
    run_name,
)
from upsilon_jax.config.presets import own_data_config, usual_fields, with_method
from upsilon_jax.config.schedule import Schedule, make_schedule, steps_per_epoch
from upsilon_jax.config.validation import validate

__all__ = [
    "FIELDS",
    "MAY_CHANGE",
    "WITHOUT_EFFECT",
    "ConfigDict",
    "Field",
    "Schedule",
    "build_method",
    "config_names",
    "default_config",
    "differences",
    "fill",
    "find_config",
    "flatten",
    "load_config",
    "make_schedule",
    "may_change",
    "of_seed",
    "own_data_config",
    "run_name",
    "steps_per_epoch",
    "usual_fields",
    "validate",
    "with_method",
]
