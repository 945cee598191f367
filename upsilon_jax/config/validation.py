"""Whether a config can be run.

Every complaint is one line that names the field, its value and what is allowed, and is
raised before anything is computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from upsilon_jax.config.fields import FIELDS, rule_of
from upsilon_jax.config.flat import auto_clusters, flatten
from upsilon_jax.config.presets import SUPERVISED, factories
from upsilon_jax.config.schedule import steps_field
from upsilon_jax.errors import ConfigError, nearest
from upsilon_jax.methods.selection import AUTO


def validate(config: ConfigDict) -> None:
    """Raises a ConfigError for the first field that cannot be as it is."""
    _check_method_fields(config.method)
    flat = flatten(config)
    for field, value in flat.items():
        if field not in FIELDS and not field.startswith("method."):
            raise ConfigError(f"{field}: no such field; {nearest(field, FIELDS)}")
        rule = rule_of(field, flat)
        if None not in (rule, value) and not rule.holds(value):
            raise ConfigError(f"{field}={value!r}: must be {rule.allowed()}")
    _check_at_most(flat, "train.pretrain_epochs", "train.epochs")
    _check_method_runs(flat)
    _check_clusters(flat)
    for section in ("method", "method.upsilon"):
        _check_at_most(flat, f"{section}.ood_threshold", f"{section}.threshold")


def _check_method_fields(method: ConfigDict) -> None:
    """The fields must be those of the method: they come with its name."""
    factory, around = factories(method.name)
    known = {"name", *inspect.signature(factory).parameters}
    if around is not None:
        known |= {f"upsilon.{name}" for name in inspect.signature(around).parameters}
    for field in flatten(method):
        if steps_field(field) not in known:
            raise ConfigError(
                f"method.{field}: {method.name} has no such field; "
                f"--config=FILE:{method.name} brings those it has"
            )


def _check_method_runs(flat: Mapping[str, Any]) -> None:
    """Some epoch must come after pre-training, else all methods are the baseline."""
    epochs, name = flat["train.epochs"], flat["method.name"]
    never = epochs is not None and flat["train.pretrain_epochs"] == epochs
    if never and name not in SUPERVISED:
        raise ConfigError(
            f"train.pretrain_epochs={epochs}: must be below train.epochs={epochs}, or "
            f"{name} never sees an unlabeled image; to train on labeled images alone "
            "take the method baseline"
        )


def _check_clusters(flat: Mapping[str, Any]) -> None:
    """K can be left to the data unless it is what makes the method."""
    field = auto_clusters(flat)
    if field is None:
        return
    name = flat["method.name"]
    own, around = factories(name)
    factory = own if field == "method.num_clusters" else around
    pinned = getattr(factory, "keywords", {}).get("num_clusters")
    if pinned is not None:
        raise ConfigError(f"{field}={AUTO!r}: {name} is the method with K={pinned}")


def _check_at_most(flat: Mapping[str, Any], small: str, large: str) -> None:
    low, high = flat.get(small), flat.get(large)
    if {None, AUTO} & {low, high}:
        return
    if low > high:
        raise ConfigError(f"{small}={low!r}: must be at most {large}={high!r}")
