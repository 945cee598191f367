"""tfds data sets, made by conftest.py from an archive of Tiny ImageNet's layout."""

import pathlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tests.data.conftest import PER_CLASS, VAL_PER_CLASS, WNIDS, expected
from upsilon_jax.data import load_source, records, tfds_source
from upsilon_jax.data.builders import tiny_imagenet
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


def test_in_memory_and_by_index_are_the_same(prepared):
    root, _ = prepared
    whole = load_source("tiny_imagenet", data_dir=str(root))
    by_index = load_source("tiny_imagenet", data_dir=str(root), in_memory=False)
    assert whole.in_memory and not by_index.in_memory
    assert whole.image_shape == (64, 64, 3) and whole.read("train", [1]).any()
    assert_same(whole, by_index)
    indices = np.array([5, 0, 17, 5])
    np.testing.assert_array_equal(
        by_index.read("train", indices), whole.read("train", indices)
    )
    small = load_source("tiny_imagenet", data_dir=str(root), image_size=32)
    assert small.read("test", np.arange(2)).shape == (2, 32, 32, 3)


def test_reading_by_index_is_safe_in_threads(prepared):
    root, _ = prepared
    source = load_source("tiny_imagenet", data_dir=str(root), in_memory=False)
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
        load_source("tiny_imagenet", data_dir=str(as_tfrecord), in_memory=False)

    [builder] = tfds_source.find_prepared(("tiny_imagenet",), as_tfrecord).values()
    target = as_tfrecord / "array_record" / "tiny_imagenet" / "1.0.0"
    records.to_array_record(builder, target)
    assert_same(
        load_source("tiny_imagenet", data_dir=str(as_tfrecord), in_memory=False), whole
    )
    assert [p.name for p in target.parent.iterdir()] == ["1.0.0"]


@pytest.mark.parametrize("cut", [1, 3, 100])
def test_a_truncated_tfrecord_is_named(as_tfrecord, cut):
    path = next(as_tfrecord.rglob("*train.tfrecord-00001-of-00002"))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match="00001-of-00002: the file ends inside"):
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


def test_saved_labels_are_used_only_if_they_fit(prepared):
    root, _ = prepared
    [builder] = tfds_source.find_prepared(("tiny_imagenet",), root).values()
    before = records.labels(builder, "train")
    records.save_labels(builder, "train")
    path = pathlib.Path(builder.data_path) / "labels-train.npy"
    np.testing.assert_array_equal(np.load(path), before)
    np.save(path, before[::-1])
    np.testing.assert_array_equal(records.labels(builder, "train"), before[::-1])
    np.save(path, before[1:])
    np.testing.assert_array_equal(records.labels(builder, "train"), before)
    path.unlink()


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "cifar10_svhn"])
def test_what_is_not_prepared_is_one_line_with_the_command(tmp_path, name):
    with pytest.raises(DataNotPrepared) as error:
        load_source(name, data_dir=str(tmp_path))
    message = str(error.value)
    assert str(tmp_path) in message and "python -m upsilon_jax.data CONFIG" in message
    assert "\n" not in message


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
    for in_memory in (True, False):
        some = load_source("tiny_imagenet", data_dir=str(root), in_memory=in_memory)
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
            records.sequential(found["tfrecord"], "train"),
            records.random_access(found["array_record"], "train"),
            strict=True,
        ):
            assert records.parse(record) == records.parse(other)
