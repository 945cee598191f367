"""Small data sets on disk: Tiny ImageNet with three classes, and a folder of photos."""

import hashlib
import io
import json
import shutil
import struct
import zipfile

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from tests.data.photo_folder import picture
from upsilon_jax.data import cache, records, tfds_source
from upsilon_jax.data.builders import tiny_imagenet
from upsilon_jax.data.checksums import masked_crc32c

WNIDS = ["n03", "n01", "n02"]  # not sorted in the file
PER_CLASS, VAL_PER_CLASS = 6, 3


def jpeg(seed, mode="RGB"):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "JPEG")
    return file.getvalue()


def expected(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def make_archive(path):
    """The official layout; returns {(split, id): (file, wnid)}."""
    files, lines = {}, []
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny-imagenet-200/wnids.txt", "\n".join(WNIDS))
        archive.writestr("tiny-imagenet-200/test/images/test_0.JPEG", jpeg(999))
        for c, wnid in enumerate(WNIDS):
            for i in range(PER_CLASS):
                mode = {0: "L", 1: "CMYK"}.get(i, "RGB")
                data, name = jpeg(100 * c + i, mode), f"{wnid}_{i}"
                folder = f"tiny-imagenet-200/train/{wnid}"
                archive.writestr(f"{folder}/images/{name}.JPEG", data)
                files["train", name] = data, wnid
            archive.writestr(f"{folder}/{wnid}_boxes.txt", "x")
            for i in range(VAL_PER_CLASS):
                data, name = jpeg(100 * c + 50 + i), f"val_{i * 3 + c}"
                archive.writestr(f"tiny-imagenet-200/val/images/{name}.JPEG", data)
                lines.append(f"{name}.JPEG\t{wnid}\t0\t32\t44\t62")
                files["validation", name] = data, wnid
        archive.writestr("tiny-imagenet-200/val/val_annotations.txt", "\n".join(lines))
    return files


@pytest.fixture(autouse=True)
def kept(tmp_path_factory, monkeypatch):
    """The folder where decoded pixels are kept: a new one for every test."""
    monkeypatch.delenv(cache.SWITCH)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    return cache.folder()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """(data_dir with Tiny ImageNet as array_record, its files by id)."""
    root = tmp_path_factory.mktemp("tfds")
    manual = root / "manual"
    manual.mkdir()
    files = make_archive(manual / tiny_imagenet.ARCHIVE)
    archive = (manual / tiny_imagenet.ARCHIVE).read_bytes()
    builder = tiny_imagenet.TinyImagenet(
        data_dir=root / "array_record", file_format="array_record"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_imagenet, "MD5", hashlib.md5(archive).hexdigest())
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(manual_dir=manual)
        )
    return root, files


def framed(record):
    """A record as it stands in a tfrecord file."""
    size = struct.pack("<Q", len(record))
    before, after = (struct.pack("<I", x) for x in masked_crc32c([size, record]))
    return size + before + record + after


@pytest.fixture
def as_tfrecord(prepared, tmp_path):
    """The same data set as tfrecord files in two shards, framed by hand."""
    [builder] = tfds_source.find_prepared(("tiny_imagenet",), prepared[0]).values()
    folder = tmp_path / "tiny_imagenet" / "1.0.0"
    ignore = shutil.ignore_patterns("*.array_record*")
    shutil.copytree(builder.data_path, folder, ignore=ignore)
    info = json.loads((folder / "dataset_info.json").read_text())
    info["fileFormat"] = "tfrecord"
    for split in info["splits"]:
        raw = list(records.in_order(builder, split["name"]))
        parts = [raw[:4], raw[4:]]
        split["shardLengths"] = [str(len(part)) for part in parts]
        for i, part in enumerate(parts):
            name = f"tiny_imagenet-{split['name']}.tfrecord-{i:05d}-of-00002"
            (folder / name).write_bytes(b"".join(map(framed, part)))
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return tmp_path


@pytest.fixture
def dirs(tmp_path):
    """Two classes of five images, four unlabeled ones, a test folder."""
    for name, first in (("cat", 0), ("dog", 10)):
        (tmp_path / "labeled" / name).mkdir(parents=True)
        (tmp_path / "test" / name).mkdir(parents=True)
        for i in range(5):
            picture(first + i).save(tmp_path / "labeled" / name / f"{i}.png")
        picture(first + 7).save(tmp_path / "test" / name / "t.png")
    (tmp_path / "unlabeled" / "deep" / "er").mkdir(parents=True)
    for i in range(4):
        folder = tmp_path / "unlabeled" / ("deep/er" if i % 2 else "")
        picture(20 + i).save(folder / f"{i}.png")
    return tmp_path
