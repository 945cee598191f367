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
from upsilon_jax.config.rules import MOST_COUNT
from upsilon_jax.config.schedule import steps_field
from upsilon_jax.data.source import OWN_FIELDS
from upsilon_jax.errors import ConfigError, nearest, shown
from upsilon_jax.methods.selection import AUTO

# Types of fields that have no rule.
_KINDS = {bool: "True or False", str: "text", (tuple, list): "a tuple of names"}
# What a value may be; arrays, for example, have no order and no truth.
_PLAIN = (bool, int, float, str, tuple, list)
# Fields that may be None although they have a default: then the data decide.
_LEFT_TO_THE_DATA = {
    "data.labels_per_class",
    "data.num_unlabeled",
    "data.mismatch",
    "train.batch_size",
    "train.epochs",
    "train.pretrain_epochs",
}
_OF_A_METHOD = ("num_clusters", "ood_threshold")


def validate(config: ConfigDict) -> None:
    """Raises a ConfigError for the first field that cannot be as it is."""
    flat = flatten(config)
    _check_complete(flat)
    _check_method_fields(config.method)
    for field, value in flat.items():
        if field not in FIELDS and not field.startswith("method."):
            raise ConfigError(f"{field}: no such field; {nearest(field, FIELDS)}")
        _check_value(field, value, flat)
    _check_seeds(flat)
    _check_unseen(flat)
    _check_at_most(flat, "train.pretrain_epochs", "train.epochs")
    _check_method_runs(flat)
    _check_clusters(flat)
    for section in ("method", "method.upsilon"):
        _check_at_most(flat, f"{section}.ood_threshold", f"{section}.threshold")


def _check_complete(flat: Mapping[str, Any]) -> None:
    """Files that do not begin with `default_config` may lack anything."""
    for field in ("method.name", "data.name"):  # they say what else there must be
        if not isinstance(flat.get(field, ""), str):
            raise ConfigError(f"{field}={shown(flat[field])}: must be text")
    optional = {f"data.{field}" for fields in OWN_FIELDS.values() for field in fields}
    if flat.get("data.name") == "folder":  # nobody knows the classes of D_u
        optional |= {"data.id_classes", "data.ood_classes", "data.ood_imbalance"}
    for field in ("method.name", *FIELDS):
        if field not in flat and field not in optional:
            raise ConfigError(
                f"{field} is missing: a config is made by default_config"
                " and with_method"
            )


def _check_value(field: str, value: Any, flat: Mapping[str, Any]) -> None:
    """A value of the field's type that follows its rule."""
    if value is None and _may_be_none(field, flat["method.name"]):
        return
    rule = rule_of(field, flat)
    kind = FIELDS[field].type if field in FIELDS else _PLAIN
    allowed = rule.allowed if rule else lambda: _KINDS.get(kind, "a value")
    try:
        fits = isinstance(value, kind) and isinstance(value, _PLAIN)
        fits = fits and (rule is None or rule.holds(value))
    except TypeError:  # what has no order was compared
        fits = False
    if fits and isinstance(value, tuple | list):
        fits = all(isinstance(name, str) for name in value)
    if not fits:
        raise ConfigError(f"{field}={shown(value)}: must be {allowed()}")


def _may_be_none(field: str, method: str) -> bool:
    """Whether something takes the place of None: the data, or a default."""
    if field in FIELDS:
        return FIELDS[field].default is None or field in _LEFT_TO_THE_DATA
    name = field.rpartition(".")[2]
    if name in _OF_A_METHOD:
        return True
    factory = factories(method)[field.startswith("method.upsilon.")]
    assert factory  # the field is one of its keywords
    parameter = inspect.signature(factory).parameters.get(name)
    return parameter is not None and parameter.default is None


def _check_seeds(flat: Mapping[str, Any]) -> None:
    """Of several seeds the last must be one, too."""
    seed, count = flat["seed"], flat["train.num_seeds"]
    if seed + count - 1 > MOST_COUNT:
        raise ConfigError(
            f"seed={seed} with train.num_seeds={count}: the last seed must be at most "
            f"{MOST_COUNT}"
        )


def _check_unseen(flat: Mapping[str, Any]) -> None:
    """Images of the data themselves are no others."""
    name = flat["data.unseen"]
    if name is not None and name == flat["data.name"]:
        raise ConfigError(f"data.unseen={name!r}: must not be data.name itself")


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
    if low is None or high is None or AUTO in (low, high):
        return
    if low > high:
        raise ConfigError(f"{small}={low!r}: must be at most {large}={high!r}")
