"""How folders of photos become classes, D_u and test images, and what is refused."""

import os

import numpy as np
import pytest
from PIL import Image

from tests.data.photo_folder import SIZE, holds, load, noise, picture, unlabeled_pixels
from upsilon_jax.data import images
from upsilon_jax.data.source import UNKNOWN
from upsilon_jax.data.splits import make_own_splits, relabel
from upsilon_jax.errors import ConfigError, DataError


@pytest.mark.parametrize("resident", [True, False])
def test_a_sound_folder(dirs, resident):
    source = load(dirs, resident=resident)
    assert source.class_names == ("cat", "dog")
    assert source.train_labels.tolist() == [0] * 5 + [1] * 5 + [UNKNOWN] * 4
    assert source.test_labels.tolist() == [0, 1]
    assert source.image_shape == (SIZE, SIZE, 3) and source.resident == resident
    assert source.skipped == ()
    np.testing.assert_array_equal(source.read("train", np.array([7]))[0], noise(12))
    np.testing.assert_array_equal(source.read("test", np.array([1]))[0], noise(17))
    for i in range(4):
        assert holds(source, noise(20 + i))


def test_a_symlink_loop_ends(dirs):
    os.symlink(dirs / "unlabeled", dirs / "unlabeled" / "deep" / "again")
    source = load(dirs)
    assert len(unlabeled_pixels(source)) == 4
    assert source.skipped[0][1] == "a link to a folder that is read already"


def test_names_in_any_script(dirs):
    names = ["ねこ", "кошка", "قطة", "a b'c\"", "naïve", "🐈", "-rf"]
    for i, name in enumerate(names):
        (dirs / "labeled" / name).mkdir()
        picture(70 + i).save(dirs / "labeled" / name / f"{name}.png")
        picture(80 + i).save(dirs / "unlabeled" / f"{name}.png")
    raw = os.fsencode(dirs / "unlabeled") + b"/\xff\xfe.png"  # no UTF-8 at all
    with open(raw, "wb") as file:
        picture(90).save(file, "png")
    with open(os.fsencode(dirs / "unlabeled") + b"/\xff.txt", "wb") as file:
        file.write(b"text")
    source = load(dirs)
    assert set(source.class_names) == {*names, "cat", "dog"}
    assert len(unlabeled_pixels(source)) == 4 + len(names) + 1
    assert holds(source, noise(90))
    [(path, why)] = source.skipped
    assert why == "not an image" and path.encode("utf-8")  # can be written to a file


def test_labeled_images_among_the_unlabeled_are_left_out(dirs):
    picture(3).save(dirs / "unlabeled" / "copy.bmp")  # another name and format
    picture(17).save(dirs / "unlabeled" / "copy of a test image.png")
    source = load(dirs)
    assert len(unlabeled_pixels(source)) == 4
    assert (
        "2 unlabeled images left out: they are labeled or test images" in source.notes
    )


def test_images_in_two_places_get_a_line(dirs):
    picture(3).save(dirs / "labeled" / "dog" / "also a cat.png")
    picture(4).save(dirs / "test" / "cat" / "seen.png")
    notes = load(dirs).notes
    assert "1 images are in more than one class" in notes
    assert "1 test images are labeled ones too" in notes


def test_a_class_without_a_readable_image_is_an_error(dirs):
    (dirs / "labeled" / "emu").mkdir()
    with pytest.raises(DataError, match="class emu has no readable image$"):
        load(dirs)
    (dirs / "labeled" / "emu" / "x.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"class emu .* \(1 files: empty file\)"):
        load(dirs)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"labeled": None}, ConfigError, "data.labeled is empty"),
        (
            {"unlabeled": "/no/such/folder"},
            DataError,
            "data.unlabeled=/no/such/folder: there is no",
        ),
        ({"labeled": "unlabeled"}, DataError, "of at least two classes, has 1"),
        ({"unlabeled": "labeled"}, DataError, "has no image that can be used"),
        ({"channels": 2}, ConfigError, "data.channels=2"),
        ({"path": "x.npz"}, ConfigError, "data.path='x.npz': folder has no such field"),
    ],
)
def test_wrong_folders_are_one_line_errors(dirs, changes, kind, message):
    changes = {
        k: str(dirs / v) if v in ("labeled", "unlabeled") else v
        for k, v in changes.items()
    }
    with pytest.raises(kind, match=message):
        load(dirs, **changes)


def test_a_test_folder_with_an_unknown_class_is_an_error(dirs):
    (dirs / "test" / "eel").mkdir()
    with pytest.raises(DataError, match="eel is no class of data.labeled"):
        load(dirs)


def test_files_beside_the_class_folders_are_listed(dirs):
    (dirs / "labeled" / "notes.txt").write_text("x")
    (dirs / "labeled" / ".cache").mkdir()
    reasons = dict(load(dirs).skipped).values()
    assert sorted(reasons) == ["a hidden folder", "not inside the folder of a class"]


def test_without_a_test_folder_a_fifth_is_held_out_by_content(dirs):
    source = load(dirs, test=None)
    assert np.bincount(source.test_labels).tolist() == [1, 1]
    assert np.bincount(source.train_labels[source.train_labels >= 0]).tolist() == [4, 4]
    for i, path in enumerate(sorted((dirs / "labeled" / "cat").iterdir())):
        path.rename(path.with_name(f"renamed {9 - i}.png"))
    again = load(dirs, test=None)
    np.testing.assert_array_equal(
        again.read("test", np.arange(2)), source.read("test", np.arange(2))
    )


def test_small_classes_still_give_a_test_image(dirs):
    for name, count in (("cat", 2), ("dog", 1)):
        for path in sorted((dirs / "labeled" / name).iterdir())[count:]:
            path.unlink()
    source = load(dirs, test=None)
    assert source.test_labels.tolist() == [0]
    assert source.train_labels[source.train_labels >= 0].tolist() == [0, 1]
    next((dirs / "labeled" / "cat").iterdir()).unlink()
    with pytest.raises(DataError, match="no class has two images.*give data.test"):
        load(dirs, test=None)
    for path in (dirs / "test").rglob("*.png"):
        path.unlink()
    with pytest.raises(DataError, match="data.test=.*no image that can be used"):
        load(dirs)


def test_a_name_never_breaks_a_line(dirs):
    (dirs / "unlabeled" / "a\nb\x1b.jpg").write_bytes(b"")
    [(name, _)] = load(dirs).skipped
    assert name.endswith(r"a\nb\x1b.jpg")


def test_size_and_channels_are_chosen_from_the_data(dirs):
    source = load(dirs, image_size=None)
    assert source.image_shape == (32, 32, 3)
    for path in (dirs / "labeled").rglob("*.png"):
        Image.open(path).convert("L").resize((100, 80)).save(path)
    source = load(dirs, image_size=None)
    assert source.image_shape == (64, 64, 1)
    assert source.chosen == {"image_size": 64, "channels": 1}
    assert any("80 pixels (median), resized to 64×64" in n for n in source.notes)
    assert load(dirs, image_size=None, channels=3).image_shape == (64, 64, 3)


def test_own_splits(dirs):
    source = load(dirs)
    names = source.class_names
    splits = make_own_splits(source.train_labels, source.test_labels, names, seed=0)
    assert sorted(splits.labeled) == list(range(10))
    assert sorted(splits.unlabeled) == list(range(10, 14))
    assert splits.test.tolist() == [0, 1] and splits.classes == names
    some = make_own_splits(
        source.train_labels,
        source.test_labels,
        names,
        labels_per_class=3,
        num_unlabeled=2,
        valid_per_class=9,
        seed=0,
    )
    labels = relabel(source.train_labels, names, some.classes)
    assert np.bincount(labels[some.labeled]).tolist() == [3, 3]
    assert np.bincount(labels[some.valid]).tolist() == [2, 2]
    assert len(some.unlabeled) == 2 and (labels[some.unlabeled] == UNKNOWN).all()
    with pytest.raises(ConfigError, match="data.num_unlabeled=5: there are only 4"):
        make_own_splits(
            source.train_labels, source.test_labels, names, num_unlabeled=5, seed=0
        )


def test_a_source_knows_its_files(dirs):
    source = load(dirs)
    assert source.fit == "crop"
    for split in ("train", "test"):
        for path, pixels in zip(
            source.paths[split],
            source.read(split, np.arange(len(source.paths[split]))),
            strict=True,
        ):
            shown = images.FITS[source.fit](Image.open(path), source.image_shape)
            np.testing.assert_array_equal(shown, pixels)
    held_out = load(dirs, test=None)
    assert len(held_out.paths["test"]) == 2
    assert all("labeled" in path for path in held_out.paths["test"])
