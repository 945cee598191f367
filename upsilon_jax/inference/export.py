"""A trained model as one file, for processes that have no workdir.

It is a zip archive with the manifest and a StableHLO program that `jax.export` reads:
uint8 images [batch, H, W, C] -> logits [batch, T], the weights inside, for any batch
and for CPU, CUDA and TPU. The C++ code of this package is not part of it.
"""

from __future__ import annotations

import json
import pathlib
import zipfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import export as jax_export

from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir import records
from upsilon_jax.workdir.files import MANIFEST
from upsilon_jax.workdir.schema import Manifest
from upsilon_jax.workdir.whole import written_whole

if TYPE_CHECKING:
    from upsilon_jax.inference.saved import Saved

EXPORT = "model.upsilon"  # what the file is called unless one says otherwise
PROGRAM = "logits.stablehlo"
PLATFORMS = ("cpu", "cuda", "tpu")


def write_export(path: pathlib.Path, saved: Saved) -> None:
    """Writes the file, whole or not at all."""
    manifest = json.dumps(records.plain(saved.manifest), ensure_ascii=False, indent=1)
    program = _program(saved).serialize()
    with written_whole(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr(MANIFEST, manifest)
        archive.writestr(PROGRAM, bytes(program))


def _program(saved: Saved) -> jax_export.Exported:
    # Whoever only reads such a file needs neither flax nor orbax.
    from upsilon_jax.inference.saved import logits_of

    logits = logits_of(saved.manifest, native=False)
    params, stats = jax.device_get((saved.params, saved.stats))
    (batch,) = jax_export.symbolic_shape("batch")
    images = jax.ShapeDtypeStruct((batch, *saved.manifest.image_shape), jnp.uint8)
    call = jax.jit(lambda images: logits(params, stats, images))
    return jax_export.export(call, platforms=PLATFORMS)(images)


def read_export(path: pathlib.Path) -> tuple[Manifest, Callable]:
    """The manifest, and a function of uint8 [B, H, W, C] to logits [B, T].

    The options of the compiler do not travel in the file: jit the function with them.

    Raises:
      WorkdirError: the file is no such archive, or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:  # it checks the sums of what it reads
            manifest = json.loads(archive.read(MANIFEST))
            program = bytearray(archive.read(PROGRAM))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise WorkdirError(
            f"{path}: is no exported model, or damaged ({error})"
        ) from error
    manifest = records.parse(Manifest, manifest, str(path))
    try:
        return manifest, jax_export.deserialize(program).call
    except Exception as error:  # of whatever another version of JAX has written
        raise WorkdirError(
            f"{path}: this version of JAX cannot read the program ({error})"
        ) from error
