"""A trained model as one file, for processes that have no workdir.

It is a zip archive with the manifest and a StableHLO program that `jax.export` reads:
uint8 images [batch, H, W, C] -> logits [batch, T], the weights inside, for any batch
and for CPU, CUDA and TPU. The C++ code of this package is not part of it.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import zipfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import export as jax_export

from upsilon_jax.errors import WorkdirError, said
from upsilon_jax.inference.described import check_manifest
from upsilon_jax.workdir import records
from upsilon_jax.workdir.files import MANIFEST
from upsilon_jax.workdir.schema import Manifest
from upsilon_jax.workdir.whole import written_whole

if TYPE_CHECKING:
    from upsilon_jax.inference.saved import Saved

EXPORT = "model.upsilon"  # what the file is called unless one says otherwise
PROGRAM = "logits.stablehlo"
DIGEST = "sha256"  # of the manifest and the program, one after the other
# Functions outside the program that it may call: none but checks of shapes. Others may
# be any code in the process, by its address.
_CALLS = frozenset({"shape_assertion"})
_CALL = re.compile(r'custom_call @"?([^"\s(]*)')
PLATFORMS = ("cpu", "cuda", "tpu")


def write_export(path: pathlib.Path, saved: Saved) -> None:
    """Writes the file, whole or not at all."""
    manifest = json.dumps(records.plain(saved.manifest), ensure_ascii=False, indent=1)
    program = _program(saved).serialize()
    with written_whole(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr(MANIFEST, manifest)
        archive.writestr(PROGRAM, bytes(program))
        archive.writestr(DIGEST, _digest(manifest.encode(), program))


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

    The file may come from others: its program computes logits from images, or it is
    refused before it runs.

    Raises:
      WorkdirError: the file is no such archive, or damaged, or does something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            text, program = _member(archive, MANIFEST), _member(archive, PROGRAM)
            # Files of earlier versions have none; zipfile checks a sum of its own.
            known = DIGEST in archive.namelist()
            digest = _member(archive, DIGEST).decode() if known else None
        if digest not in (None, _digest(text, program)):
            raise ValueError("its digest does not fit")
        manifest = json.loads(text)
    except Exception as error:  # zipfile raises anything on damaged data
        raise WorkdirError(
            f"{path}: is no exported model, or damaged ({said(error)})"
        ) from error
    manifest = check_manifest(records.parse(Manifest, manifest, str(path)), str(path))
    try:
        exported = jax_export.deserialize(bytearray(program))
        calls = set(_CALL.findall(exported.mlir_module())) - _CALLS
    except Exception as error:  # of whatever another version of JAX has written
        raise WorkdirError(
            f"{path}: this version of JAX cannot read the program ({said(error)})"
        ) from error
    if calls:
        raise WorkdirError(f"{path}: its program calls {min(calls)!r}: not run")
    _check_shapes(exported, manifest, path)
    return manifest, exported.call


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of the archive; its checksum is checked, and it is as long as it looks."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:  # a small file could unpack to much
        raise ValueError(f"{name} is compressed")
    return archive.read(info)


def _digest(manifest: bytes, program: bytes | bytearray) -> str:
    return hashlib.sha256(manifest + program).hexdigest()


def _check_shapes(
    exported: jax_export.Exported, manifest: Manifest, path: pathlib.Path
) -> None:
    """The program must be of the images and outputs that the manifest tells of."""
    shape = lambda array: (str(array.dtype), *array.shape[1:])
    images = ("uint8", *manifest.image_shape)
    logits = ("float32", manifest.num_classes + manifest.num_clusters)
    taken, given = map(shape, exported.in_avals), map(shape, exported.out_avals)
    if [*taken] != [images] or [*given] != [logits]:
        raise WorkdirError(f"{path}: its program and its manifest do not fit together")
