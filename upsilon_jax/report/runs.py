"""Results that were read, and what tells one run from another.

A run is known by its data, by the fields that methods have in common (its setting), by
its method with that method's own fields (its variant), by its mismatch and by its seed.
Runs that agree in all but the seed are repetitions of one another, and only those are
ever averaged.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from upsilon_jax.config import WITHOUT_EFFECT, flatten, usual_fields
from upsilon_jax.errors import UserError
from upsilon_jax.workdir.schema import Result

Fields = tuple[tuple[str, Any], ...]  # ("train.epochs", 60), ... in order of names

_PLACES = ("data.labeled", "data.unlabeled", "data.test", "data.path")
_DIGEST = "data.digest"
# Fields of methods, though not below `method`.
_OF_METHODS = ("train.pretrain_epochs", "data.pseudo_batches", "data.valid_per_class")
_SHORT = 12  # characters of a digest that are kept


class Run(NamedTuple):
    """A result and what tells it from others."""

    path: pathlib.Path  # where it was read from
    result: Result
    data: str  # the name of its data; of one's own also their place
    setting: Fields  # what it has in common with runs of other methods
    variant: Fields  # its method and that method's own fields

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.result.config["method"]["name"]

    @property
    def mismatch(self) -> float | None:
        """The share of foreign images in D_u; None if nobody knows."""
        return self.result.config["data"].get("mismatch")

    @property
    def key(self) -> tuple:
        """What it has in common with its repetitions."""
        return self.data, self.setting, self.variant, self.mismatch

    @property
    def fingerprint(self) -> str:
        """A few characters that differ where the key does.

        Fields at their defaults have no part in it: it stays when fields are added.
        """
        return _digest(self.method, self.mismatch, (*self.setting, *self.variant))


def as_runs(results: Iterable[tuple[pathlib.Path, Result]]) -> list[Run]:
    """Runs of results and their files, in that order.

    Raises:
      UserError: two of them are the same run; one line names both files.
    """
    runs: list[Run] = []
    names: dict[str, str] = {}  # the same data may lie in two places
    for path, result in results:
        run = as_run(path, result)
        digest = dict(run.setting).get(_DIGEST)
        if digest:
            run = run._replace(data=names.setdefault(digest, run.data))
        runs.append(run)
    seen: dict[tuple, Run] = {}
    for run in runs:
        first = seen.setdefault((run.key, run.result.seed), run)
        if first is not run:
            raise UserError(
                f"{first.path} and {run.path} are the same run: method {run.method}, "
                f"seed {run.result.seed}, and no setting differs; take one of them away"
            )
    return runs


def as_run(path: pathlib.Path, result: Result) -> Run:
    """The run of a result."""
    return Run(path, result, *_told_apart(result.config, result.data_digest))


def fingerprint(config: Mapping[str, Any]) -> str:
    """Of a run with this config, which has been run or not; not of one's own data."""
    _, setting, variant = _told_apart(config, None)
    mismatch = config["data"].get("mismatch")
    return _digest(config["method"]["name"], mismatch, (*setting, *variant))


def _told_apart(
    config: Mapping[str, Any], data_digest: Mapping[str, str] | None
) -> tuple[str, Fields, Fields]:
    """The name of the data, the setting and the variant: see `Run`."""
    data, method = config["data"], config["method"]["name"]
    place = data.get("labeled") or data.get("path")
    flat = {**usual_fields(method), **flatten(config)}
    for field in ("seed", "data.mismatch", *WITHOUT_EFFECT):
        flat.pop(field, None)
    if place and data_digest:
        for field in _PLACES:
            flat.pop(field, None)
        flat[_DIGEST] = data_digest["all"][:_SHORT]
    own = {k: v for k, v in flat.items() if k[:7] == "method." or k in _OF_METHODS}
    shared = {k: v for k, v in flat.items() if k not in own}
    name = f"{data['name']} {place}" if place else data["name"]
    return name, _frozen(shared), _frozen(own)


def _digest(method: str, mismatch: float | None, fields: Fields) -> str:
    usual = dict(_frozen(usual_fields(method)))
    told = [(k, v) for k, v in fields if k not in usual or usual[k] != v]
    text = repr((method, mismatch, told))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _frozen(fields: Mapping[str, Any]) -> Fields:
    plain = lambda value: tuple(value) if isinstance(value, list) else value
    return tuple(sorted((name, plain(value)) for name, value in fields.items()))
