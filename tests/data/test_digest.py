import numpy as np
import pytest

from upsilon_jax.data import images, load_source
from upsilon_jax.data.digest import changed, changed_files, data_digest, file_digests


def with_pixels(source, change):
    pixels = {
        s: source.read(s, np.arange(n)) for s, n in (("train", 1200), ("test", 597))
    }
    change(pixels)
    return source._replace(read=lambda split, indices: pixels[split][indices])


def test_it_sees_every_pixel_label_and_class_name():
    source = load_source("digits")
    digest = data_digest(source)
    assert digest == data_digest(load_source("digits"))
    assert list(digest) == ["all", "classes", "train", "test"]

    def one_bit(pixels):
        pixels["test"][596, 7, 7, 0] ^= 1

    def two_swapped(pixels):
        pixels["train"][[0, 1]] = pixels["train"][[1, 0]]

    labels = source.test_labels.copy()
    labels[0] += 1
    for part, other in (
        ("test", with_pixels(source, one_bit)),
        ("train", with_pixels(source, two_swapped)),
        ("test", source._replace(test_labels=labels)),
        ("classes", source._replace(class_names=("zero", *source.class_names[1:]))),
    ):
        assert changed(digest, data_digest(other)) == [part]
        assert data_digest(other)["all"] != digest["all"]


def test_it_reads_only_few_large_images_at_once(monkeypatch):
    source, asked = load_source("digits"), []

    def read(split, indices):
        asked.append(len(indices))
        return source.read(split, indices)

    monkeypatch.setattr(images, "_PART_BYTES", 100 * 64)
    assert data_digest(source._replace(read=read)) == data_digest(source)
    assert max(asked) == 100


@pytest.mark.parametrize("part", ["x_train", "y_train", "x_unlabeled", "x_test"])
def test_of_arrays_it_says_which_part_changed(tmp_path, part):
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.integers(0, 256, (6, 4, 4), dtype=np.uint8)
        for name in ("x_train", "x_unlabeled", "x_test")
    }
    arrays |= {"y_train": np.arange(6) % 3, "y_test": np.arange(6) % 3}
    path = tmp_path / "my.npz"

    def digest():
        np.savez(path, **arrays)
        return data_digest(load_source("npz", path=str(path)))

    first = digest()
    assert digest() == first
    arrays[part] = arrays[part][::-1]
    names = {"x_train": "labeled", "y_train": "labeled", "x_unlabeled": "unlabeled"}
    assert changed(first, digest()) == [names.get(part, "test")]


def test_a_part_that_is_new_has_changed():
    assert changed({"all": "x", "train": "a"}, {"all": "y", "labeled": "a"}) == [
        "train",
        "labeled",
    ]


def test_files_that_changed_are_told_apart():
    before = {"a": "1", "b": "2", "c": "3"}
    assert changed_files(before, dict(before)) == []
    assert changed_files(before, {f"moved/{k}": v for k, v in before.items()}) == []
    assert changed_files(before, {"a": "1", "b": "4", "\udcff\n": "5"}) == [
        r"1 added (\udcff\n)",
        "1 removed (c)",
        "1 replaced (b)",
    ]
    [line] = changed_files({}, {f"{n}.png": str(n) for n in range(1000)})
    assert line.startswith("1,000 added (0.png, 1.png, ") and line.endswith(", ...)")
    assert file_digests(load_source("digits")) == {}
