"""Configs as flat mappings {"train.epochs": 400, ...}."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ml_collections import ConfigDict

from upsilon_jax.methods.selection import AUTO


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train.epochs": 400, ...}; a section without a field stays as it is."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping | ConfigDict) and len(value):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def auto_clusters(flat: Mapping[str, Any]) -> str | None:
    """The field that leaves K to the data, if there is one.

    Unlike γ, K decides the shape of the network: it is a number from step 0 on, and
    that number is stored (`training/clusters.py`).
    """
    fields = ("method.num_clusters", "method.upsilon.num_clusters")
    return next((field for field in fields if flat.get(field) == AUTO), None)


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], but: Collection[str] = ()
) -> dict[str, str]:
    """Field -> a line, where two configs differ, but for those in `but`."""
    old, new = flatten(old), flatten(new)
    plain = lambda value: list(value) if isinstance(value, tuple) else value
    return {
        field: f"{field}: {old.get(field, 'absent')!r} → {new.get(field, 'absent')!r}"
        for field in sorted((old.keys() | new.keys()) - set(but))
        if plain(old.get(field)) != plain(new.get(field))
    }


def of_seed(config: ConfigDict, seed: int) -> ConfigDict:
    """The config of one seed of several: that of a run of its own."""
    config = config.copy_and_resolve_references()
    config.seed, config.train.num_seeds = seed, 1
    return config
