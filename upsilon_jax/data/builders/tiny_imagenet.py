"""Tiny ImageNet (200 classes of 64×64 images) for tfds, which does not have it."""

from __future__ import annotations

import hashlib
import io
import pathlib
import zipfile
from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from upsilon_jax.errors import DataError

URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
ARCHIVE = "tiny-imagenet-200.zip"
DOWNLOAD_BYTES = 248_100_043
MD5 = "90528d7ca1a48142e341f4ef8d21d0de"

_ROOT = "tiny-imagenet-200"
_SIZE = 64


class TinyImagenet(tfds.core.GeneratorBasedBuilder):
    """100,000 train and 10,000 validation images; classes are wnids, sorted.

    The archive is taken from the manual directory if it is there, else downloaded. It
    is read in place, nothing is extracted.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "The official train and val folders."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"Optional: put {ARCHIVE} of {URL} here."

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Tiny ImageNet: 200 classes of ImageNet at 64×64.",
            homepage="https://www.kaggle.com/c/tiny-imagenet",
            features=tfds.features.FeaturesDict(
                {
                    "id": tfds.features.Text(),
                    "image": tfds.features.Image(shape=(_SIZE, _SIZE, 3)),
                    "label": tfds.features.ClassLabel(),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager):
        path = self._find_archive(dl_manager)
        with zipfile.ZipFile(path) as archive:
            wnids = sorted(archive.read(f"{_ROOT}/wnids.txt").decode().split())
        self.info.features["label"].names = wnids
        return {
            "train": self._generate_examples(path, _train_files, wnids),
            "validation": self._generate_examples(path, _val_files, wnids),
        }

    def _find_archive(self, dl_manager) -> pathlib.Path:
        try:
            path = pathlib.Path(dl_manager.manual_dir) / ARCHIVE
        except AssertionError:  # there is no manual directory
            path = None
        if path is None or not path.exists():
            path = pathlib.Path(dl_manager.download(URL))
        with open(path, "rb") as file:
            md5 = hashlib.file_digest(file, "md5").hexdigest()
        if md5 != MD5:
            raise DataError(f"{path} is damaged: its md5 is {md5}, not {MD5}")
        return path

    def _generate_examples(self, path: pathlib.Path, files, wnids: list[str]):
        labels = {wnid: label for label, wnid in enumerate(wnids)}
        with zipfile.ZipFile(path) as archive:
            for name, wnid in files(archive):
                stem = pathlib.PurePosixPath(name).stem
                image = _as_rgb(archive.read(name))
                yield stem, {"id": stem, "image": image, "label": labels[wnid]}


def _train_files(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """(file, wnid) of train/<wnid>/images/<wnid>_<number>.JPEG."""
    for name in archive.namelist():
        parts = name.split("/")
        if parts[1:2] == ["train"] and name.endswith(".JPEG"):
            yield name, parts[2]


def _val_files(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """(file, wnid) of val/images/*, as val/val_annotations.txt has them."""
    table = archive.read(f"{_ROOT}/val/val_annotations.txt").decode()
    for line in table.splitlines():
        file, wnid = line.split("\t")[:2]
        yield f"{_ROOT}/val/images/{file}", wnid


def _as_rgb(data: bytes) -> io.BytesIO | np.ndarray:
    """The file as it is if it holds RGB, else (grey, CMYK) its pixels as RGB."""
    image = Image.open(io.BytesIO(data))
    if image.mode == "RGB":
        return io.BytesIO(data)
    return np.asarray(image.convert("RGB"))  # stored as PNG: no second loss
