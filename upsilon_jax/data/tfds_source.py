"""Data sets that tfds has prepared on this disk.

Opening one reads labels only; pixels are decoded when they are asked for and, if the
images are to be resident, kept for the next start (`store.py`). array_record files can
be streamed, tfrecord files cannot. tfds writes both in the same order, which is the
order here: an index means the same image either way.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from upsilon_jax.data import images, records
from upsilon_jax.data.source import Source, fits_in_memory
from upsilon_jax.data.store import Store
from upsilon_jax.errors import DataError, DataNotPrepared

ARRAY_RECORD_DIR = "array_record"  # beside the tfrecord data, inside the data_dir
IMAGENET100_FILE = pathlib.Path(__file__).parent / "imagenet100.txt"


class Facts(NamedTuple):
    """What has to be known of a tfds data set beforehand."""

    config: str  # a benchmark that has it
    builders: tuple[str, ...]  # tfds names with config; the first that is there is used
    image_shape: tuple[int, int, int]
    mean: tuple[float, ...]  # of the train images in [0, 1], per channel
    std: tuple[float, ...]
    test_split: str = "test"
    classes_file: pathlib.Path | None = None  # only these, by name; None for all


_IMAGENET_STATISTICS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

FACTS = {
    "cifar10": Facts(
        "cifar10",
        ("cifar10",),
        (32, 32, 3),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
    ),
    "cifar100": Facts(
        "cifar100",
        ("cifar100",),
        (32, 32, 3),
        (0.5071, 0.4865, 0.4409),
        (0.2673, 0.2564, 0.2762),
    ),
    "svhn": Facts(
        "svhn",
        ("svhn_cropped",),
        (32, 32, 3),
        (0.4377, 0.4438, 0.4728),
        (0.1980, 0.2010, 0.1970),
    ),
    "tiny_imagenet": Facts(
        "tin",
        ("tiny_imagenet",),
        (64, 64, 3),
        (0.4802, 0.4481, 0.3975),
        (0.2770, 0.2691, 0.2821),
        test_split="validation",
    ),
    "imagenet100": Facts(
        "imagenet100",
        ("imagenet_resized/64x64", "imagenet2012"),
        (64, 64, 3),
        *_IMAGENET_STATISTICS,
        test_split="validation",
        classes_file=IMAGENET100_FILE,
    ),
}


def load(
    name: str,
    *,
    data_dir: str | None = None,
    image_size: int | None = None,
    resident: bool | None = None,
) -> Source:
    """Opens a prepared data set; see `source.load_source`."""
    facts = FACTS[name]
    height, width, channels = facts.image_shape
    shape = (image_size or height, image_size or width, channels)
    found = find_prepared(facts.builders, data_dir)
    if not found:
        raise DataNotPrepared(
            f"{' or '.join(facts.builders)} is not prepared in {default_dir(data_dir)}",
            facts.config,
            data_dir,
        )
    builder = found.get("array_record") or found["tfrecord"]
    names = builder.info.features["label"].names
    classes = tuple(names) if facts.classes_file is None else read_classes(name)
    numbers = _renumber(names, classes)
    share = len(classes) / len(names)  # an estimate of the size is enough here
    num_bytes = builder.info.splits["train"].num_examples * share * math.prod(shape)
    resident = fits_in_memory(num_bytes) if resident is None else resident
    if not resident and "array_record" not in found:
        raise DataNotPrepared(
            f"{builder.data_path} has tfrecord files, which cannot be streamed",
            facts.config,
            data_dir,
        )
    train = _open(builder, "train", numbers, shape, resident)
    test = _open(builder, facts.test_split, numbers, shape, resident)
    read = {"train": train.read, "test": test.read}
    return Source(
        name=name,
        class_names=classes,
        train_labels=train.labels,
        test_labels=test.labels,
        image_shape=shape,
        mean=facts.mean,
        std=facts.std,
        read=lambda split, indices: read[split](np.asarray(indices)),
        resident=resident,
        contents={"train": train.contents, "test": test.contents},
    )


def default_dir(data_dir: str | None = None) -> pathlib.Path:
    """`data_dir`, or where tfds keeps its data by default."""
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return pathlib.Path(os.path.expanduser(data_dir or default))


def find_prepared(
    names: tuple[str, ...], data_dir: str | None = None
) -> dict[str, Any]:
    """Builders of the first of these tfds data sets that is ready, by file format.

    Looks in `data_dir` and in its folder `array_record`, for the newest version, and
    never at the network.
    """
    root = default_dir(data_dir)
    for name in names:
        found = {}
        for folder in (root, root / ARRAY_RECORD_DIR):
            versions = sorted((folder / name).glob("*/dataset_info.json"), key=_version)
            for path in versions:
                builder = _builder(path)
                found[builder.info.file_format.value] = builder
        if found:
            return found
    return {}


def tensorflow_datasets() -> Any:
    """The package; a DataError says how to get it."""
    try:
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        raise DataError(
            f"data sets of tfds need {error.name}: pip install 'upsilon_jax[cpu]', or "
            "cuda or tpu instead of cpu"
        ) from error
    return tfds


def _builder(path: pathlib.Path) -> Any:
    """The tfds builder that a dataset_info.json describes."""
    tfds = tensorflow_datasets()
    from google.protobuf import json_format

    try:
        return tfds.builder_from_directory(path.parent)
    except json_format.Error as error:
        raise DataError(f"{path} is damaged ({error})") from error


def read_classes(name: str) -> tuple[str, ...]:
    """The classes in the `classes_file` of a data set, sorted."""
    file = FACTS[name].classes_file
    assert file  # as only some have
    lines = file.read_text().splitlines()
    return tuple(sorted(line for line in lines if line and not line.startswith("#")))


def _version(path: pathlib.Path) -> list[int]:
    parts = path.parent.name.split(".")
    return [int(part) if part.isdecimal() else -1 for part in parts]


def _renumber(names: list[str], classes: tuple[str, ...]) -> np.ndarray:
    """Numbers in `classes` of the numbers in `names`, -1 for what is left out."""
    missing = [name for name in classes if name not in names]
    if missing:
        raise DataError(f"the data set has no class {', '.join(missing[:5])}")
    position = {name: i for i, name in enumerate(classes)}
    return np.array([position.get(name, -1) for name in names], np.int32)


class _Split(NamedTuple):
    labels: np.ndarray  # [n] int32
    contents: np.ndarray  # [n, 32] uint8, sha256 of the image files
    read: Callable[[np.ndarray], np.ndarray]  # indices [k] -> uint8 [k, H, W, C]


def _open(builder, split: str, numbers: np.ndarray, shape, resident: bool) -> _Split:
    """The images of a split whose class has a number; pixels are decoded on request."""
    table = records.table(builder, split)
    labels = numbers[table["label"]]
    kept = np.flatnonzero(labels >= 0)
    contents = table["content"][kept]
    files = functools.cache(lambda: records.by_position(builder, split))

    def decode(indices: np.ndarray) -> np.ndarray:
        pixels = np.empty((len(indices), *shape), np.uint8)
        rows = kept[indices].tolist()
        for i, record in enumerate(files().__getitems__(rows)):
            where = f"{builder.data_path}: image {rows[i]} of {split}"
            data, _ = records.parse(record)
            if hashlib.sha256(data).digest() != contents[indices[i]].tobytes():
                raise DataError(f"{where} has changed since the data were opened")
            try:
                pixels[i] = images.decode(data, shape)
            except images.BadImage as error:
                raise DataError(f"{where}: {error}") from error
        return pixels

    if not resident:
        return _Split(labels[kept], contents, decode)
    store = Store(f"stretch-pillow{images.pillow_version()}", shape)

    def read(indices: np.ndarray) -> np.ndarray:
        return store.read(contents[indices], lambda some: decode(indices[some]))

    return _Split(labels[kept], contents, read)
