"""The network that a run has saved, from its workdir alone: no data and no config."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from upsilon_jax import models
from upsilon_jax.config import FIELDS
from upsilon_jax.errors import WorkdirError, said, shown
from upsilon_jax.inference.described import check_manifest
from upsilon_jax.inference.predict import make_predict
from upsilon_jax.runtime import sharding
from upsilon_jax.types import Head, Params, Stats
from upsilon_jax.workdir import records
from upsilon_jax.workdir.checkpoint import restore_part
from upsilon_jax.workdir.files import MANIFEST
from upsilon_jax.workdir.schema import Manifest


class Saved(NamedTuple):
    """The EMA weights of the newest usable checkpoint, and what they are for."""

    manifest: Manifest
    params: Params
    stats: Stats
    notes: tuple[str, ...]  # one for every checkpoint that could not be used


def read_saved(workdir: pathlib.Path, mesh: Mesh) -> Saved:
    """Reads a workdir, and changes nothing there.

    Args:
      workdir: of one run.
      mesh: gets the weights; they may have been saved from any other.

    Raises:
      WorkdirError: one line says what is missing.
    """
    manifest = read_manifest(workdir)
    shapes = shapes_of(manifest)
    here = sharding.replicated(mesh)
    like = jax.tree.map(lambda shape: shape.update(sharding=here), shapes)
    (params, stats), notes = restore_part(workdir, "ema", like)
    return Saved(manifest, params, stats, tuple(notes))


def shapes_of(manifest: Manifest) -> tuple:
    """Shapes of (params, stats); a WorkdirError if there can be no such network."""
    with _described():
        return models.shapes_of(_module(manifest), tuple(manifest.image_shape))


def read_manifest(workdir: pathlib.Path) -> Manifest:
    """The manifest of a run; a WorkdirError says what the folder is instead."""
    if not (workdir / MANIFEST).exists():
        seeds = sorted(path.parent for path in workdir.glob(f"seed_*/{MANIFEST}"))
        if seeds:
            shown = ", ".join(map(str, seeds[:3])) + (", …" if len(seeds) > 3 else "")
            raise WorkdirError(f"{workdir} holds several seeds; name one: {shown}")
        raise WorkdirError(f"{workdir} is no run: there is no {MANIFEST} in it")
    path = workdir / MANIFEST
    return check_manifest(records.read(Manifest, path), str(path))


def logits_of(manifest: Manifest, *, native: bool) -> Callable:
    """(params, stats, images uint8 [B, H, W, C]) -> logits [B, T], not yet jitted.

    With `native` the C++ code computes on one CPU device, where there is one.
    """
    forward = models.forward_of(_module(manifest, native=native))
    predict = make_predict(forward, manifest.mean, manifest.std)
    return lambda params, stats, images: predict(params, stats, images)["logits"]


def _module(manifest: Manifest, *, native: bool = False) -> models.Classifier:
    with _described():
        heads = {name: Head(**fields) for name, fields in manifest.heads.items()}
        heads = {name: _with_tuples(head) for name, head in heads.items()}
        for name, value in manifest.model.items():
            _check(name, value)
        return models.build(heads=heads, native=native, **manifest.model)


def _check(name: str, value: Any) -> None:
    """Refuses what no config may have: a network of any depth takes any time."""
    field = FIELDS.get(f"model.{name}")
    if field and field.rule and not field.rule.holds(value):
        raise ValueError(f"{name} must be {field.rule.allowed()}, got {shown(value)}")


@contextlib.contextmanager
def _described() -> Iterator[None]:
    """Says in one line that a manifest describes no network."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise WorkdirError(
            f"{MANIFEST} describes no network of this version ({said(error)})"
        ) from error


def _with_tuples(head: Head) -> Head:
    """JSON has lists, and modules must be hashable."""
    size = head.size if isinstance(head.size, int) else tuple(head.size)
    return head._replace(size=size, hidden=tuple(head.hidden))
