"""tfds data sets, made by conftest.py from an archive of Tiny ImageNet's layout."""

import pathlib
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tests.data.conftest import PER_CLASS, VAL_PER_CLASS, WNIDS, expected
from upsilon_jax.data import digest, images, load_source, records, tfds_source
from upsilon_jax.data.builders import tiny_imagenet
from upsilon_jax.data.digest import data_digest
from upsilon_jax.errors import DataError, DataNotPrepared


def assert_same(a, b):
    assert a.class_names == b.class_names
    for split in ("train", "test"):
        labels = getattr(a, f"{split}_labels")
        np.testing.assert_array_equal(labels, getattr(b, f"{split}_labels"))
        everything = np.arange(len(labels))
        np.testing.assert_array_equal(
            a.read(split, everything), b.read(split, everything)
        )


def test_tiny_imagenet_is_the_official_layout(prepared):
    root, files = prepared
    [builder] = tfds_source.find_prepared(("tiny_imagenet",), root).values()
    assert builder.info.features["label"].names == sorted(WNIDS)
    for split, count in (("train", PER_CLASS), ("validation", VAL_PER_CLASS)):
        rows = list(builder.as_data_source(split))
        assert len(rows) == 3 * count
        for row in rows:  # every one of them, grey and CMYK too
            data, wnid = files[split, row["id"].decode()]
            assert sorted(WNIDS)[row["label"]] == wnid
            np.testing.assert_array_equal(row["image"], expected(data))


def test_tiny_imagenet_refuses_a_damaged_archive(prepared, tmp_path):
    root, _ = prepared
    builder = tiny_imagenet.TinyImagenet(data_dir=tmp_path, file_format="array_record")
    config = tfds.download.DownloadConfig(manual_dir=root / "manual")
    with pytest.raises(DataError, match="is damaged: its md5 is"):
        builder.download_and_prepare(download_config=config)


def test_resident_and_streamed_are_the_same(prepared):
    root, _ = prepared
    whole = load_source("tiny_imagenet", data_dir=str(root))
    streamed = load_source("tiny_imagenet", data_dir=str(root), resident=False)
    assert whole.resident and not streamed.resident
    assert whole.image_shape == (64, 64, 3) and whole.read("train", [1]).any()
    assert_same(whole, streamed)
    indices = np.array([5, 0, 17, 5])
    np.testing.assert_array_equal(
        streamed.read("train", indices), whole.read("train", indices)
    )
    small = load_source("tiny_imagenet", data_dir=str(root), image_size=32)
    assert small.read("test", np.arange(2)).shape == (2, 32, 32, 3)


def test_reading_is_safe_in_threads(prepared):
    root, _ = prepared
    source = load_source("tiny_imagenet", data_dir=str(root), resident=False)
    one = source.read("train", np.arange(18))
    requests = [np.random.default_rng(i).permutation(18) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for indices, pixels in zip(
            requests,
            pool.map(lambda i: source.read("train", i), requests),
            strict=True,
        ):
            np.testing.assert_array_equal(pixels, one[indices])


def test_tfrecord_is_the_same_and_converts(prepared, as_tfrecord):
    root, _ = prepared
    whole = load_source("tiny_imagenet", data_dir=str(root))
    assert_same(load_source("tiny_imagenet", data_dir=str(as_tfrecord)), whole)
    with pytest.raises(
        DataNotPrepared, match="which cannot be streamed: run python -m"
    ):
        load_source("tiny_imagenet", data_dir=str(as_tfrecord), resident=False)

    [builder] = tfds_source.find_prepared(("tiny_imagenet",), as_tfrecord).values()
    target = as_tfrecord / "array_record" / "tiny_imagenet" / "1.0.0"
    records.to_array_record(builder, target)
    assert_same(
        load_source("tiny_imagenet", data_dir=str(as_tfrecord), resident=False), whole
    )
    assert [p.name for p in target.parent.iterdir()] == ["1.0.0"]


@pytest.mark.parametrize("cut", [1, 3, 100])
def test_a_truncated_tfrecord_is_named(as_tfrecord, cut):
    path = next(as_tfrecord.rglob("*train.tfrecord-00001-of-00002"))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match="00001-of-00002: the file ends inside"):
        load_source("tiny_imagenet", data_dir=str(as_tfrecord))


@pytest.mark.parametrize("place", [0, 9, 12, 200, -1])
def test_a_changed_tfrecord_is_named(as_tfrecord, place):
    path = next(as_tfrecord.rglob("*train.tfrecord-00001-of-00002"))
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    told = "00001-of-00002: (the file ends inside|.* does not fit)"
    with pytest.raises(DataError, match=told):
        load_source("tiny_imagenet", data_dir=str(as_tfrecord))


def test_missing_records_are_noticed(as_tfrecord):
    path = next(as_tfrecord.rglob("*train.tfrecord-00001-of-00002"))
    path.write_bytes(b"")
    with pytest.raises(DataError, match="train has 4 records instead of 18"):
        load_source("tiny_imagenet", data_dir=str(as_tfrecord))
    [builder] = tfds_source.find_prepared(("tiny_imagenet",), as_tfrecord).values()
    with pytest.raises(DataError, match="4 records instead of 18"):
        records.to_array_record(builder, as_tfrecord / "array_record" / "x" / "1.0.0")
    assert not (as_tfrecord / "array_record" / "x" / "1.0.0").exists()


def forbid_decoding(monkeypatch):
    monkeypatch.setattr(images, "decode", None)  # would fail if called


def test_opening_decodes_nothing_and_reading_only_what_is_asked(prepared, monkeypatch):
    decoded = []
    decode = lambda *args, real=images.decode: decoded.append(1) or real(*args)
    monkeypatch.setattr(images, "decode", decode)
    source = load_source("tiny_imagenet", data_dir=str(prepared[0]))
    assert not decoded
    source.read("train", np.array([3, 11, 5]))
    assert len(decoded) == 3
    source.read("train", np.array([5, 3, 4]))
    assert len(decoded) == 4


def test_a_second_start_decodes_nothing(prepared, as_tfrecord, monkeypatch):
    """Of the same images in the other file format, too; every bit is the same."""
    root, _ = prepared
    streamed = load_source("tiny_imagenet", data_dir=str(root), resident=False)
    first = load_source("tiny_imagenet", data_dir=str(root))
    assert_same(first, streamed)
    forbid_decoding(monkeypatch)
    assert_same(load_source("tiny_imagenet", data_dir=str(root)), first)
    assert_same(load_source("tiny_imagenet", data_dir=str(as_tfrecord)), first)
    for change in ({"image_size": 32}, {"resident": False}):
        other = load_source("tiny_imagenet", data_dir=str(root), **change)
        with pytest.raises(TypeError):
            other.read("train", np.arange(3))


def test_labels_are_remembered_as_long_as_the_files_are_the_same(
    as_tfrecord, monkeypatch
):
    before = load_source("tiny_imagenet", data_dir=str(as_tfrecord))
    with monkeypatch.context() as patch:
        patch.setattr(records, "in_order", None)  # would fail if called
        again = load_source("tiny_imagenet", data_dir=str(as_tfrecord))
        np.testing.assert_array_equal(again.train_labels, before.train_labels)
        assert data_digest(again) == data_digest(before)
        again.read("train", np.array([0]))
    path = next(as_tfrecord.rglob("*train.tfrecord-00000-of-00002"))
    frames = path.read_bytes()
    (size,) = struct.unpack("<Q", frames[:8])
    first, others = frames[: size + 16], frames[size + 16 :]
    path.write_bytes(others + first)  # the same size, another order
    with pytest.raises(DataError, match="image 0 of train has changed since"):
        before.read("train", np.array([0]))
    changed = load_source("tiny_imagenet", data_dir=str(as_tfrecord))
    np.testing.assert_array_equal(
        changed.read("train", np.array([3])), again.read("train", np.array([0]))
    )
    assert digest.changed(data_digest(before), data_digest(changed)) == ["train"]


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "flipped":
        data[len(data) // 2 : len(data) // 2 + 2000] = bytes(2000)
    path.write_bytes(data if how == "flipped" else data[: len(data) // 2])


@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("kind", ["array_record", "tfrecord", "dataset_info.json"])
def test_damaged_files_are_one_line_errors(prepared, as_tfrecord, tmp_path, kind, how):
    root = as_tfrecord
    if kind == "array_record":
        root = tmp_path / "copy"
        shutil.copytree(prepared[0], root)
    path = next(
        path for path in sorted(root.rglob("*"), reverse=True) if kind in path.name
    )
    if how == "gone":
        path.unlink()
    else:
        damage(path, how)
    with pytest.raises(DataError) as error:
        source = load_source("tiny_imagenet", data_dir=str(root))
        for split, labels in (
            ("train", source.train_labels),
            ("test", source.test_labels),
        ):
            source.read(split, np.arange(len(labels)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "cifar10_svhn"])
def test_what_is_not_prepared_is_one_line_with_the_command(tmp_path, name):
    with pytest.raises(DataNotPrepared) as error:
        load_source(name, data_dir=str(tmp_path))
    message = str(error.value)
    config = "cifar10" if name == "cifar10_svhn" else name  # its first part
    command = f"run python -m upsilon_jax.data {config} --config.data.data_dir="
    assert f"{command}{tmp_path}" in message and "\n" not in message


def test_imagenet100_is_the_same_wnids_in_both_sources():
    """The two number the 1,000 classes differently; names are what counts."""
    wnids = tfds_source.read_classes("imagenet100")
    assert len(wnids) == len(set(wnids)) == 100 and list(wnids) == sorted(wnids)
    numbers = {}
    for name in ("imagenet2012", "imagenet_resized"):
        root = pathlib.Path(tfds.core.tfds_path())
        path = {
            "imagenet2012": root / "datasets/imagenet2012/labels.txt",
            "imagenet_resized": root
            / "image_classification/imagenet_resized_labels.txt",
        }[name]
        names = path.read_text().split()
        table = tfds_source._renumber(names, wnids)
        assert [names[i] for i in np.argsort(table)[-100:]] == list(wnids)
        assert (table >= 0).sum() == 100
        numbers[name] = table
    assert not np.array_equal(numbers["imagenet2012"], numbers["imagenet_resized"])


def test_a_class_list_filters_by_name(prepared, monkeypatch, tmp_path):
    root, _ = prepared
    path = tmp_path / "classes.txt"
    path.write_text("# two of the three\nn03\nn01\n")
    facts = tfds_source.FACTS["tiny_imagenet"]._replace(classes_file=path)
    whole = load_source("tiny_imagenet", data_dir=str(root))
    monkeypatch.setitem(tfds_source.FACTS, "tiny_imagenet", facts)
    for resident in (True, False):
        some = load_source("tiny_imagenet", data_dir=str(root), resident=resident)
        assert some.class_names == ("n01", "n03")
        kept = np.flatnonzero(whole.train_labels != 1)
        np.testing.assert_array_equal(some.train_labels, whole.train_labels[kept] // 2)
        np.testing.assert_array_equal(
            some.read("train", np.arange(12)), whole.read("train", kept)
        )
    path.write_text("n01\nn99")
    with pytest.raises(DataError, match="the data set has no class n99"):
        load_source("tiny_imagenet", data_dir=str(root))


@pytest.mark.slow
def test_the_real_cifar10():
    """Counts, statistics, and one order of images in both formats."""
    found = tfds_source.find_prepared(("cifar10",))
    if not found:
        pytest.skip("CIFAR-10 is not prepared")
    source = load_source("cifar10")
    assert np.bincount(source.train_labels).tolist() == [5000] * 10
    assert np.bincount(source.test_labels).tolist() == [1000] * 10
    pixels = source.read("train", np.arange(50000))
    np.testing.assert_allclose(pixels.mean((0, 1, 2)) / 255, source.mean, atol=1e-4)
    np.testing.assert_allclose(pixels.std((0, 1, 2)) / 255, source.std, atol=1e-4)
    if len(found) == 2:
        for record, other in zip(
            records.in_order(found["tfrecord"], "train"),
            records.in_order(found["array_record"], "train"),
            strict=True,
        ):
            assert records.parse(record) == records.parse(other)
