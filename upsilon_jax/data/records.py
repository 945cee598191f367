"""The record files of tfds, without TensorFlow: its import takes seconds.

A record is a serialized `tf.train.Example` in either format. array_record can be read
by position; tfrecord only from the beginning, so `to_array_record` copies the records
over for data sets that are streamed.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from upsilon_jax.errors import DataError

# Lengths around a record in a tfrecord file: size (8 bytes) and its checksum (4)
# before, checksum of the data (4) after.
_HEADER, _FOOTER = 12, 4

_LABELS_FILE = "labels-{split}.npy"


def parse(record: bytes) -> tuple[bytes, int]:
    """The image file and the label in a record with features "image" and "label"."""
    from tensorflow_datasets.proto import tf_example_pb2

    fields = tf_example_pb2.Example.FromString(record).features.feature
    return fields["image"].bytes_list.value[0], fields["label"].int64_list.value[0]


def random_access(builder: Any, split: str) -> Any:
    """A sequence of the raw records of array_record files; safe in threads."""
    import tensorflow_datasets as tfds

    raw = tfds.decode.DeserializeMethod.RAW_BYTES
    return builder.as_data_source(split, deserialize_method=raw)


def sequential(builder: Any, split: str) -> Iterator[bytes]:
    """The raw records of tfrecord files in the order in which they were written.

    Raises:
      DataError: a file ends early, or there are not as many records as there should.
    """
    count = 0
    info = builder.info.splits[split]
    for path in info.filepaths:
        for record in _tfrecord(path):
            count += 1
            yield record
    if count != info.num_examples:
        raise DataError(
            f"{builder.data_path}: {split} has {count:,} records instead of "
            f"{info.num_examples:,}"
        )


def _tfrecord(path: os.PathLike) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while header := file.read(_HEADER):
            if len(header) < _HEADER:
                raise DataError(f"{path}: the file ends inside a record")
            (size,) = struct.unpack("<Q", header[:8])
            data = file.read(size + _FOOTER)
            if len(data) < size + _FOOTER:
                raise DataError(f"{path}: the file ends inside a record")
            yield data[:size]


def labels(builder: Any, split: str) -> np.ndarray:
    """All labels of array_record files, [n] int32.

    Reading them means reading the images with them; `save_labels` spares that.
    """
    saved = pathlib.Path(builder.data_path) / _LABELS_FILE.format(split=split)
    records = random_access(builder, split)
    if saved.exists():
        found = np.load(saved, allow_pickle=False)
        if found.shape == (len(records),):
            return found.astype(np.int32)
    numbers = np.empty(len(records), np.int32)
    for chunk in chunks(len(records)):
        for i, record in zip(chunk, records.__getitems__(chunk), strict=True):
            numbers[i] = parse(record)[1]
    return numbers


def save_labels(builder: Any, split: str) -> None:
    """Writes the labels beside the records, for `labels` to find."""
    path = pathlib.Path(builder.data_path) / _LABELS_FILE.format(split=split)
    np.save(path, labels(builder, split), allow_pickle=False)


def chunks(n: int, size: int = 512) -> list[range]:
    """0 .. n-1 in pieces that a thread reads at a time."""
    return [range(start, min(start + size, n)) for start in range(0, n, size)]


def to_array_record(
    builder: Any, folder: pathlib.Path, *, progress: Any = lambda records: records
) -> None:
    """Copies a prepared tfrecord data set into `folder` as array_record files.

    The records and their order stay as they are. What is half done has another name
    until it is complete, so a run that was stopped leaves nothing that looks ready.

    Args:
      builder: of a data set in tfrecord format.
      folder: the version folder to write; its parents are made.
      progress: wraps the iterator of records, for a progress bar.
    """
    unfinished = folder.with_name(folder.name + ".incomplete")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(
        builder.data_path, unfinished, ignore=shutil.ignore_patterns("*.tfrecord*")
    )
    description = unfinished / "dataset_info.json"
    info = json.loads(description.read_text())
    for split in info["splits"]:
        records = iter(progress(sequential(builder, split["name"])))
        lengths = [int(length) for length in split["shardLengths"]]
        old = builder.info.splits[split["name"]].filenames
        for name, length in zip(sorted(old), lengths, strict=True):
            name = name.replace(".tfrecord-", ".array_record-")
            _write(unfinished / name, records, length)
        for _ in records:  # to its end, where the number of records is checked
            raise DataError(f"{builder.data_path}: more records than {sum(lengths):,}")
    info["fileFormat"] = "array_record"
    description.write_text(json.dumps(info, indent=2))
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def _write(path: pathlib.Path, records: Iterable[bytes], length: int) -> None:
    from array_record.python import array_record_module

    # Groups of one record: any of them is read alone.
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
    for _, record in zip(range(length), records, strict=False):
        writer.write(record)
    writer.close()
