"""Data sets that tfds has prepared on this disk.

With array_record files single images are read by index and TensorFlow is not imported;
tfrecord files have no index, so all of their images are read at once. tfds writes
both in the same order, which is the order here: indices mean the same image either way.
"""

from __future__ import annotations

import math
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from upsilon_jax.data import images
from upsilon_jax.data.source import (
    DataNotPrepared,
    Source,
    keep_in_memory,
)

ARRAY_RECORD_DIR = "array_record"  # beside the tfrecord data, inside the data_dir

_CHUNK = 512  # images decoded by one task


class Facts(NamedTuple):
    """What has to be known of a tfds data set beforehand."""

    builder: str  # tfds name, with its config
    image_shape: tuple[int, int, int]
    mean: tuple[float, ...]  # of the train images in [0, 1], per channel
    std: tuple[float, ...]
    test_split: str = "test"


FACTS = {
    "cifar10": Facts(
        "cifar10", (32, 32, 3), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    ),
    "cifar100": Facts(
        "cifar100", (32, 32, 3), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    ),
    "svhn": Facts(
        "svhn_cropped", (32, 32, 3), (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)
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
    found = find_prepared(facts.builder, data_dir)
    if not found:
        raise DataNotPrepared(
            f"{facts.builder} is not prepared in {default_dir(data_dir)}: "
            "run python -m upsilon_jax.data CONFIG"
        )
    builder = found.get("array_record") or found["tfrecord"]
    num_bytes = math.prod(shape) * builder.info.splits["train"].num_examples
    in_memory = keep_in_memory(num_bytes, in_memory)
    if not in_memory and "array_record" not in found:
        raise DataNotPrepared(
            f"{builder.data_path} has tfrecord files, which cannot be streamed: "
            "run python -m upsilon_jax.data CONFIG to convert them"
        )
    open_split = _random_access if "array_record" in found else _sequential
    train_labels, read_train = open_split(builder, "train", shape, in_memory)
    test_labels, read_test = open_split(builder, facts.test_split, shape, in_memory)
    readers = {"train": read_train, "test": read_test}
    return Source(
        name=name,
        class_names=tuple(builder.info.features["label"].names),
        train_labels=train_labels,
        test_labels=test_labels,
        image_shape=shape,
        mean=facts.mean,
        std=facts.std,
        read=lambda split, indices: readers[split](indices),
        in_memory=in_memory,
    )


def default_dir(data_dir: str | None = None) -> pathlib.Path:
    """`data_dir`, or where tfds keeps its data by default."""
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return pathlib.Path(data_dir or default).expanduser()


def find_prepared(name: str, data_dir: str | None = None) -> dict[str, Any]:
    """The builders of a tfds data set that are ready on disk, by file format.

    Looks in `data_dir` and in its folder `array_record`, at the newest version, and
    never at the network.
    """
    root = default_dir(data_dir)
    found = {}
    for folder in (root, root / ARRAY_RECORD_DIR):
        for info in sorted((folder / name).glob("*/dataset_info.json"), key=_version):
            import tensorflow_datasets as tfds

            builder = tfds.builder_from_directory(info.parent)
            found[builder.info.file_format.value] = builder
    return found


def _version(info: pathlib.Path) -> list[int]:
    return [
        int(part) if part.isdecimal() else -1 for part in info.parent.name.split(".")
    ]


def _random_access(builder, split: str, shape, in_memory: bool):
    """Labels, and a reader by index, of array_record files."""
    import tensorflow_datasets as tfds

    skip = {"image": tfds.decode.SkipDecoding()}
    records = builder.as_data_source(split, decoders=skip)

    def read(indices: np.ndarray) -> np.ndarray:
        pixels = np.empty((len(indices), *shape), np.uint8)
        keys = [int(i) for i in indices]
        for row, record in enumerate(records.__getitems__(keys)):
            pixels[row] = images.decode(record["image"], shape)
        return pixels

    chunks = _chunks(len(records))
    if not in_memory:
        labels = [[r["label"] for r in records.__getitems__(c)] for c in chunks]
        return _int32(labels), read
    pixels = np.empty((len(records), *shape), np.uint8)

    def fill(chunk: range) -> list[int]:
        rows = records.__getitems__(chunk)
        for i, record in zip(chunk, rows, strict=True):
            pixels[i] = images.decode(record["image"], shape)
        return [record["label"] for record in rows]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        labels = list(pool.map(fill, chunks))
    return _int32(labels), lambda indices: pixels[np.asarray(indices)]


def _sequential(builder, split: str, shape, in_memory: bool):
    """Labels, and a reader by index, of tfrecord files: all is in memory."""
    del in_memory
    import tensorflow_datasets as tfds

    # One file after the other, unshuffled: the order in which they were written.
    dataset = builder.as_dataset(
        split=split,
        batch_size=_CHUNK,
        shuffle_files=False,
        read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
        decoders={"image": tfds.decode.SkipDecoding()},
    )
    pixels = np.empty((builder.info.splits[split].num_examples, *shape), np.uint8)
    labels = []
    for start, batch in zip(
        range(0, len(pixels), _CHUNK), tfds.as_numpy(dataset), strict=True
    ):
        for i, data in enumerate(batch["image"], start):
            pixels[i] = images.decode(data, shape)
        labels.append(batch["label"])
    return _int32(labels), lambda indices: pixels[np.asarray(indices)]


def _chunks(n: int) -> list[range]:
    return [range(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK)]


def _int32(chunks: list[list[int]]) -> np.ndarray:
    return np.array([label for chunk in chunks for label in chunk], np.int32)
