"""What a run may be told: every field with its default and its rule, and the clock."""

from upsilon_jax.config.rules import (
    RUN_KNOWN,
    ConfigDict,
    Schedule,
    build_method,
    differences,
    fill,
    flatten,
    make_schedule,
    of_seed,
    steps_per_epoch,
    validate,
)

__all__ = [
    "RUN_KNOWN",
    "ConfigDict",
    "Schedule",
    "build_method",
    "differences",
    "fill",
    "flatten",
    "make_schedule",
    "of_seed",
    "steps_per_epoch",
    "validate",
]
