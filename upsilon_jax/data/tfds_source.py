"""Data sets that tfds has prepared on this disk.

With array_record files images are read by index when they are needed; tfrecord files
have no index, so all images are read at once. tfds writes both in the same order,
which is the order here: an index means the same image either way.
"""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from upsilon_jax.data import images, records
from upsilon_jax.data.source import Source, keep_in_memory
from upsilon_jax.errors import DataError, DataNotPrepared

ARRAY_RECORD_DIR = "array_record"  # beside the tfrecord data, inside the data_dir
IMAGENET100_FILE = pathlib.Path(__file__).parent / "imagenet100.txt"

Reader = Callable[[np.ndarray], np.ndarray]


class Facts(NamedTuple):
    """What has to be known of a tfds data set beforehand."""

    builders: tuple[str, ...]  # tfds names with config; the first that is there is used
    image_shape: tuple[int, int, int]
    mean: tuple[float, ...]  # of the train images in [0, 1], per channel
    std: tuple[float, ...]
    test_split: str = "test"
    classes_file: pathlib.Path | None = None  # only these, by name; None for all


_IMAGENET_STATISTICS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

FACTS = {
    "cifar10": Facts(
        ("cifar10",), (32, 32, 3), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    ),
    "cifar100": Facts(
        ("cifar100",), (32, 32, 3), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    ),
    "svhn": Facts(
        ("svhn_cropped",),
        (32, 32, 3),
        (0.4377, 0.4438, 0.4728),
        (0.1980, 0.2010, 0.1970),
    ),
    "tiny_imagenet": Facts(
        ("tiny_imagenet",),
        (64, 64, 3),
        (0.4802, 0.4481, 0.3975),
        (0.2770, 0.2691, 0.2821),
        test_split="validation",
    ),
    "imagenet100": Facts(
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
    in_memory: bool | None = None,
) -> Source:
    """Opens a prepared data set; see `source.load_source`."""
    facts = FACTS[name]
    height, width, channels = facts.image_shape
    shape = (image_size or height, image_size or width, channels)
    found = find_prepared(facts.builders, data_dir)
    if not found:
        raise DataNotPrepared(
            f"{' or '.join(facts.builders)} is not prepared in {default_dir(data_dir)}:"
            " run python -m upsilon_jax.data CONFIG"
        )
    if "array_record" in found:
        builder, open_split = found["array_record"], _random_access
    else:
        builder, open_split = found["tfrecord"], _sequential
    names = builder.info.features["label"].names
    classes = tuple(names) if facts.classes_file is None else read_classes(name)
    numbers = _renumber(names, classes)
    share = len(classes) / len(names)  # an estimate of the size is enough here
    num_bytes = builder.info.splits["train"].num_examples * share * math.prod(shape)
    in_memory = keep_in_memory(num_bytes, in_memory)
    if not in_memory and open_split is _sequential:
        raise DataNotPrepared(
            f"{builder.data_path} has tfrecord files, which cannot be streamed: "
            "run python -m upsilon_jax.data CONFIG to convert them"
        )
    train_labels, train = open_split(builder, "train", numbers, shape, in_memory)
    test_labels, test = open_split(builder, facts.test_split, numbers, shape, in_memory)
    readers = {"train": train, "test": test}
    return Source(
        name=name,
        class_names=classes,
        train_labels=train_labels,
        test_labels=test_labels,
        image_shape=shape,
        mean=facts.mean,
        std=facts.std,
        read=lambda split, indices: readers[split](np.asarray(indices)),
        in_memory=in_memory,
    )


def default_dir(data_dir: str | None = None) -> pathlib.Path:
    """`data_dir`, or where tfds keeps its data by default."""
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return pathlib.Path(data_dir or default).expanduser()


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
                import tensorflow_datasets as tfds

                builder = tfds.builder_from_directory(path.parent)
                found[builder.info.file_format.value] = builder
        if found:
            return found
    return {}


def read_classes(name: str) -> tuple[str, ...]:
    """The classes in the `classes_file` of a data set, sorted."""
    lines = FACTS[name].classes_file.read_text().splitlines()
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


def _random_access(
    builder, split: str, numbers: np.ndarray, shape, in_memory: bool
) -> tuple[np.ndarray, Reader]:
    """Labels, and a reader by index, of array_record files."""
    source = records.random_access(builder, split)

    def decode(rows: np.ndarray, pixels: np.ndarray) -> None:
        found = source.__getitems__([int(row) for row in rows])
        for i, record in enumerate(found):
            pixels[i] = images.decode(records.parse(record)[0], shape)

    labels = numbers[records.labels(builder, split)]
    kept = np.flatnonzero(labels >= 0)
    if not in_memory:

        def read(indices: np.ndarray) -> np.ndarray:
            pixels = np.empty((len(indices), *shape), np.uint8)
            decode(kept[indices], pixels)
            return pixels

        return labels[kept], read
    pixels = np.empty((len(kept), *shape), np.uint8)

    def fill(chunk: range) -> None:
        part = slice(chunk.start, chunk.stop)
        decode(kept[part], pixels[part])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, records.chunks(len(kept))))
    return labels[kept], lambda indices: pixels[indices]


def _sequential(
    builder, split: str, numbers: np.ndarray, shape, in_memory: bool
) -> tuple[np.ndarray, Reader]:
    """Labels, and a reader by index, of tfrecord files: all is in memory."""
    del in_memory
    labels, pixels = [], []
    for record in records.sequential(builder, split):
        data, label = records.parse(record)
        if numbers[label] >= 0:
            labels.append(numbers[label])
            pixels.append(images.decode(data, shape))
    pixels = np.stack(pixels)
    return np.array(labels, np.int32), lambda indices: pixels[indices]
