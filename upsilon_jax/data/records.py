"""The record files of tfds, without TensorFlow: its import takes seconds.

A record is a serialized `tf.train.Example` in either format. array_record can be read
by position; tfrecord only from the beginning, so `to_array_record` copies the records
over for data sets that are streamed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from upsilon_jax.data import cache
from upsilon_jax.data.checksums import masked_crc32c
from upsilon_jax.errors import DataError

# Around a record in a tfrecord file: its size (8 bytes) and the checksum of that (4)
# before, the checksum of the data (4) after.
_SIZE, _HEADER, _FOOTER = 8, 12, 4

_CHUNK = 512  # records read at a time

TABLE = np.dtype([("label", "<i4"), ("content", "u1", (32,))])


def parse(record: bytes) -> tuple[bytes, int]:
    """The image file and the label in a record with features "image" and "label".

    Raises:
      DataError: it is not such a record.
    """
    from google.protobuf.message import DecodeError
    from tensorflow_datasets.proto import tf_example_pb2

    try:
        fields = tf_example_pb2.Example.FromString(record).features.feature
        return fields["image"].bytes_list.value[0], fields["label"].int64_list.value[0]
    except (DecodeError, IndexError) as error:
        raise DataError("it is damaged, or has no image and label") from error


def by_position(builder: Any, split: str) -> Any:
    """The raw records: `len`, and `__getitems__` of a list of positions, in threads."""
    tfrecord = builder.info.file_format.value == "tfrecord"
    return (_TfRecords if tfrecord else _ArrayRecords)(builder, split)


def in_order(builder: Any, split: str) -> Iterator[bytes]:
    """The raw records in the order in which they were written.

    Raises:
      DataError: a file ends early, or there are not as many records as there should.
    """
    records = by_position(builder, split)
    for start in range(0, len(records), _CHUNK):
        positions = range(start, min(start + _CHUNK, len(records)))
        yield from records.__getitems__(positions)


class _ArrayRecords:
    """array_record files by position, which is what they are made for."""

    def __init__(self, builder: Any, split: str):
        import tensorflow_datasets as tfds

        raw = tfds.decode.DeserializeMethod.RAW_BYTES
        self._source = builder.as_data_source(split, deserialize_method=raw)
        self._where = f"{builder.data_path}: {split}"

    def __len__(self) -> int:
        return len(self._source)

    def __getitems__(self, positions: Sequence[int]) -> list[bytes]:
        try:
            return self._source.__getitems__(positions)
        except RuntimeError as error:  # what array_record raises
            raise DataError(f"{self._where} is damaged ({error})") from error


class _TfRecords:
    """tfrecord files by position: one skips through them to find where records are.

    That reads a little of every part of the files, so it serves data that are read as a
    whole; data that are streamed are converted first. Checksums are checked whenever
    something is read.
    """

    def __init__(self, builder: Any, split: str):
        info = builder.info.splits[split]
        self._paths = [os.fspath(path) for path in info.filepaths]
        frames = [
            (file, offset, size)
            for file, path in enumerate(self._paths)
            for offset, size in _frames(path)
        ]
        self._frames = np.array(frames, np.int64).reshape(-1, 3)
        if len(self._frames) != info.num_examples:
            raise DataError(
                f"{builder.data_path}: {split} has {len(self._frames):,} records "
                f"instead of {info.num_examples:,}"
            )

    def __len__(self) -> int:
        return len(self._frames)

    def __getitems__(self, positions: Sequence[int]) -> list[bytes]:
        found = []
        with contextlib.ExitStack() as stack:
            open_once = functools.cache(
                lambda path: stack.enter_context(open(path, "rb"))
            )
            for number, offset, size in self._frames[list(positions)].tolist():
                file = open_once(self._paths[number])
                file.seek(offset)
                found.append(file.read(size + _FOOTER))
        wrong = _wrong([(read[:-_FOOTER], read[-_FOOTER:]) for read in found])
        if wrong is not None:
            path = self._paths[self._frames[positions[wrong], 0]]
            raise DataError(f"{path}: a record is damaged, its checksum does not fit")
        return [read[:-_FOOTER] for read in found]


def _wrong(checked: Sequence[tuple[bytes, bytes]]) -> int | None:
    """The place of the first (data, checksum) that do not belong together."""
    data, sums = zip(*checked, strict=True) if checked else ((), ())
    said = np.frombuffer(b"".join(sums), "<u4")
    if len(said) != len(data):
        return 0  # the file has become shorter
    return next(iter(np.flatnonzero(said != masked_crc32c(data)).tolist()), None)


def _frames(path: str) -> list[tuple[int, int]]:
    """(offset, size) of the records of a tfrecord file."""
    found, sizes = [], []
    with open(path, "rb") as file:
        position, end = 0, os.fstat(file.fileno()).st_size
        while position < end:
            file.seek(position)
            header = file.read(_HEADER)
            sizes.append((header[:_SIZE], header[_SIZE:]))
            size = int.from_bytes(header[:_SIZE], "little")
            if len(header) < _HEADER or position + _HEADER + size + _FOOTER > end:
                raise DataError(f"{path}: the file ends inside a record")
            found.append((position + _HEADER, size))
            position += _HEADER + size + _FOOTER
    if _wrong(sizes) is not None:
        raise DataError(f"{path}: is damaged, the checksum of a size does not fit")
    return found


def table(builder: Any, split: str) -> np.ndarray:
    """Label and sha256 of the image file of every record, [n] `TABLE`.

    All records are read for it once; as long as the files are the same by name, size
    and time, what was found is kept in `cache.folder`.

    Raises:
      DataError: the files are damaged.
    """
    info = builder.info.splits[split]
    try:
        files = "".join(map(cache.file_key, info.filepaths))
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}") from error
    name = f"records-{hashlib.sha256(files.encode()).hexdigest()}"
    known = cache.load_table(name, TABLE)
    if known is not None and len(known) == info.num_examples:
        return known
    rows = np.empty(info.num_examples, TABLE)
    for row, record in enumerate(in_order(builder, split)):
        try:
            image, rows["label"][row] = parse(record)
        except DataError as error:
            raise DataError(
                f"{builder.data_path}: record {row} of {split}: {error}"
            ) from error
        rows["content"][row] = np.frombuffer(hashlib.sha256(image).digest(), np.uint8)
    cache.save_table(name, rows)
    return rows


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
        records = iter(progress(in_order(builder, split["name"])))
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
