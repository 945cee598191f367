"""A trained model to use: images in, classes out."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from upsilon_jax.data.store import progress_bar
from upsilon_jax.errors import DataError, WorkdirError
from upsilon_jax.inference.images import Fit, Picture, Skipped, batches, find_pictures
from upsilon_jax.inference.predicted import columns
from upsilon_jax.runtime import interrupts, sharding
from upsilon_jax.runtime.compilation import jit
from upsilon_jax.workdir.place import local_path
from upsilon_jax.workdir.schema import Manifest

# Images are predicted so many at a time. Each size is compiled when it is first needed:
# a single image should not wait for 256.
_SIZES = (1, 16, 256)
# Activations of a batch stay within tens of megabytes.
_MAX_PIXELS = 2**19


class Predicted(NamedTuple):
    """What a model says of images, a row each."""

    label: np.ndarray  # [n] int32, the most probable ID class; -1 if not finite
    class_name: np.ndarray  # [n] str
    probability: np.ndarray  # [n] float32, of that class among the ID classes
    id_score: np.ndarray  # [n] float32 in 0..1, ID confidence over all T outputs
    cluster: np.ndarray  # [n] int32, the cluster if it beats every class, else -1
    logits: np.ndarray  # [n, T] float32
    path: np.ndarray  # [n] str, of the file, "" if there is none
    # [n] int64, place in an array, -1 of a file of its own. Hides tuple.index.
    index: np.ndarray  # type: ignore[assignment]
    skipped: Skipped  # (file, why): what a folder has that is no image


class Network(NamedTuple):
    """The compiled part of a model."""

    manifest: Manifest
    logits: Callable[[np.ndarray], jax.Array]  # uint8 [B, H, W, C] -> [B, T]
    num_devices: int = 1  # B must be a multiple of it
    notes: tuple[str, ...] = ()  # lines for the person who loads it


class Model:
    """A trained model, as `load` gives it."""

    def __init__(self, network: Network):
        self._network = network
        self.manifest: Manifest = network.manifest
        self.notes = network.notes

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the C ID classes, in the order of labels."""
        return tuple(self.manifest.classes)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(H, W, C), to which images of any size are brought."""
        height, width, channels = self.manifest.image_shape
        return height, width, channels

    @property
    def fit(self) -> Fit:
        """How that is done: as in training."""
        return Fit(self.image_shape, self.manifest.fit)

    def __call__(self, images: Any) -> Predicted:
        """Predicts images.

        Args:
          images: uint8 [n, h, w] or [n, h, w, c] of any size; the path of a file, of a
            folder or of a .npz file with an array `x`; or a sequence of such paths and
            of images [h, w] or [h, w, c].

        Raises:
          DataError: it is something else, or a file cannot be read; files of a folder
            that cannot are listed in `Predicted.skipped` instead.
        """
        skipped: Skipped = []
        predicted = self.predict(find_pictures(images, self.fit, skipped), skipped)
        one_path = isinstance(images, str | os.PathLike)
        if skipped and not (one_path and len(predicted.label)):
            raise DataError(": ".join(skipped[0]))
        return predicted

    def predict(
        self, pictures: Sequence[Picture], skipped: Skipped, *, show: bool = False
    ) -> Predicted:
        """Predicts pictures; those that cannot be read are added to `skipped`.

        Args:
          pictures: from `find_pictures`.
          skipped: what was left out so far.
          show: a progress bar, where there is a terminal.
        """
        size = self._batch_size(len(pictures))
        places: list[int] = []
        logits = [np.empty((0, self._num_outputs), np.float32)]
        pending: tuple[jax.Array, int] | None = None
        fetch = lambda ahead, count: logits.append(np.asarray(ahead)[:count])
        with progress_bar("predicting", len(pictures), show=show) as bar:
            for batch in batches(pictures, size, skipped):
                interrupts.check()
                ahead = self._network.logits(_filled(batch.pixels, size))
                # One batch is computed while the next one is read, and no more.
                if pending:
                    fetch(*pending)
                pending = ahead, len(batch.places)
                places += batch.places
                bar.update(batch.num_seen)
            if pending:
                fetch(*pending)
        chosen = [pictures[place] for place in places]
        return self._predicted(np.concatenate(logits), chosen, skipped)

    @property
    def _num_outputs(self) -> int:
        return self.manifest.num_classes + self.manifest.num_clusters

    def _batch_size(self, num_images: int) -> int:
        height, width, _ = self.image_shape
        most = max(_MAX_PIXELS // (height * width), 1)
        size = next((size for size in _SIZES if size >= num_images), _SIZES[-1])
        devices = self._network.num_devices
        return math.ceil(min(size, most) / devices) * devices

    def _predicted(
        self, logits: np.ndarray, pictures: Sequence[Picture], skipped: Skipped
    ) -> Predicted:
        found = columns(logits, self.manifest.num_classes)
        names = np.array([*self.classes, ""])  # label -1 is the last
        return Predicted(
            label=found.label,
            class_name=names[found.label],
            probability=found.probability,
            id_score=found.id_score,
            cluster=found.cluster,
            logits=logits,
            path=np.array([picture.path for picture in pictures], object),
            index=np.array([picture.index for picture in pictures], np.int64),
            skipped=skipped,
        )


def _filled(pixels: np.ndarray, size: int) -> np.ndarray:
    """Filled up with the last image: every call has the same shape."""
    missing = [(0, size - len(pixels)), (0, 0), (0, 0), (0, 0)]
    return np.pad(pixels, missing, mode="edge")


def load(path: str | os.PathLike) -> Model:
    """Opens a trained model: neither its data nor its config is needed.

    Args:
      path: the workdir of a run, whose newest usable checkpoint is taken, or a file
        that `--mode=export` has written.

    Raises:
      WorkdirError: it is neither; one line says why.
    """
    path = local_path(path)
    if path.is_dir():
        return Model(_of_run(path))
    if not path.exists():
        raise WorkdirError(f"{path}: there is no such folder or file")
    from upsilon_jax.inference.export import read_export

    manifest, call = read_export(path)
    return Model(Network(manifest, jit(call)))


def _of_run(workdir: pathlib.Path) -> Network:
    # Only here are flax and orbax needed.
    from upsilon_jax.inference.saved import logits_of, read_saved

    mesh = sharding.data_mesh()
    saved = read_saved(workdir, mesh)
    logits = jit(
        logits_of(saved.manifest, native=mesh.size == 1),
        out_shardings=sharding.rows(mesh),
    )
    predict = lambda images: logits(
        saved.params, saved.stats, sharding.put_rows(images, mesh)
    )
    return Network(saved.manifest, predict, mesh.size, saved.notes)
