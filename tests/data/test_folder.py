"""Each fault of a folder of photos, by name: decoded right, or skipped and listed."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from upsilon_jax.data import cache, images, load_source, photos
from upsilon_jax.data.digest import changed, data_digest
from upsilon_jax.data.source import UNKNOWN
from upsilon_jax.data.splits import make_own_splits, relabel
from upsilon_jax.errors import ConfigError, DataError

SIZE = 16


def picture(seed, size=(SIZE, SIZE)):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


def noise(seed):
    """Pixels [SIZE, SIZE, 3] of `picture`."""
    return np.asarray(picture(seed))


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


def load(dirs, **changes):
    options = {
        "labeled": str(dirs / "labeled"),
        "unlabeled": str(dirs / "unlabeled"),
        "test": str(dirs / "test"),
        "image_size": SIZE,
    }
    return load_source("folder", **(options | changes))


def unlabeled_pixels(source):
    return source.read("train", np.flatnonzero(source.train_labels == UNKNOWN))


def holds(source, pixels, tolerance=0):
    """Whether an unlabeled image is this one."""
    difference = np.abs(unlabeled_pixels(source).astype(int) - pixels.astype(int))
    return bool((difference.max((1, 2, 3)) <= tolerance).any())


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


BAD = {
    "not an image": (b"once upon a time", "not an image"),
    "zero bytes": (b"", "empty file"),
    "a truncated PNG": ("png", "damaged or cut off"),
    "a truncated JPEG": ("jpeg", "damaged or cut off"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_skipped_and_listed(dirs, name):
    data, reason = BAD[name]
    path = dirs / "unlabeled" / "bad.jpg"
    if isinstance(data, str):
        picture(99, (200, 200)).save(path, data)
        data = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(data)
    source = load(dirs)
    assert len(unlabeled_pixels(source)) == 4
    [(skipped, why)] = source.skipped
    assert skipped == str(path) and reason in why


def test_a_one_pixel_image_is_decoded(dirs):
    Image.new("RGB", (1, 1), (10, 20, 30)).save(dirs / "unlabeled" / "dot.png")
    source = load(dirs)
    assert not source.skipped
    assert holds(source, np.full((SIZE, SIZE, 3), (10, 20, 30)))


def test_cmyk_is_decoded(dirs):
    Image.new("CMYK", (SIZE, SIZE), (0, 255, 255, 0)).save(
        dirs / "unlabeled" / "print.jpg", quality=100
    )
    # Full magenta and yellow is red; JPEG may be off by a little.
    assert holds(load(dirs), np.full((SIZE, SIZE, 3), (255, 0, 0)), tolerance=3)


def test_16_bits_are_scaled_not_clipped(dirs):
    ramp = np.arange(SIZE * SIZE, dtype=np.uint16).reshape(SIZE, SIZE) * 256 + 7
    Image.fromarray(ramp).save(dirs / "unlabeled" / "deep.png")
    expected = np.repeat((ramp // 256)[..., None], 3, axis=2)
    assert holds(load(dirs), expected)


def test_a_palette_is_decoded(dirs):
    image = picture(50).quantize(16)
    image.save(dirs / "unlabeled" / "p.png")
    assert holds(load(dirs), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_alpha_is_seen_on_white(dirs, mode):
    alpha = Image.new("L", (SIZE, SIZE), 255)
    alpha.paste(0, (0, 0, SIZE // 2, SIZE))
    image = Image.new("RGB", (SIZE, SIZE), (40, 40, 40))
    image.putalpha(alpha)
    suffix = "png" if mode != "PA" else "webp"
    image = image if mode == "PA" else image.convert(mode)
    image.save(dirs / "unlabeled" / f"a.{suffix}", lossless=True)
    expected = np.full((SIZE, SIZE, 3), 40)
    expected[:, : SIZE // 2] = 255
    assert holds(load(dirs), expected)


def test_a_transparent_palette_is_seen_on_white(dirs):
    image = Image.new("P", (SIZE, SIZE), 1)
    image.putpalette([0, 0, 0, 9, 9, 9])
    image.paste(0, (0, 0, SIZE, 4))
    image.save(dirs / "unlabeled" / "t.gif", transparency=0)
    expected = np.full((SIZE, SIZE, 3), 9)
    expected[:4] = 255
    assert holds(load(dirs), expected)


@pytest.mark.parametrize("suffix", ["gif", "png", "webp"])
def test_of_an_animation_the_first_frame(dirs, suffix):
    frames = [Image.new("RGB", (SIZE, SIZE), c) for c in ("red", "blue", "lime")]
    path = dirs / "unlabeled" / f"moving.{suffix}"
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    assert holds(load(dirs), np.full((SIZE, SIZE, 3), (255, 0, 0)), tolerance=1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(dirs, orientation):
    operations = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    image, exif = picture(60), Image.Exif()
    exif[0x0112] = orientation
    image.save(dirs / "unlabeled" / "phone.png", exif=exif)
    if orientation > 1:
        image = image.transpose(operations[orientation])
    assert holds(load(dirs), np.asarray(image))


def test_an_unreadable_file_is_skipped(dirs, monkeypatch):
    """Root reads anything, so the refusal is staged; a dead link is the real thing."""
    locked = str(dirs / "unlabeled" / "0.png")
    real = photos.os.stat

    def stat(path, *args, **kwargs):
        if path == locked:
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(photos.os, "stat", stat)
    os.symlink(dirs / "nowhere", dirs / "unlabeled" / "dead.png")
    source = load(dirs)
    reasons = dict(source.skipped)
    assert reasons[locked] == "cannot be read (Permission denied)"
    assert "No such file" in reasons[str(dirs / "unlabeled" / "dead.png")]
    assert len(unlabeled_pixels(source)) == 3


def test_a_pipe_is_skipped_and_not_waited_for(dirs):
    os.mkfifo(dirs / "unlabeled" / "pipe.png")
    assert load(dirs).skipped[0][1] == "not a regular file"


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


def test_an_image_bomb_is_not_decoded(dirs, monkeypatch):
    monkeypatch.setattr(photos, "MAX_PIXELS", 1000)
    Image.new("L", (40, 40)).save(dirs / "unlabeled" / "bomb.png")
    source = load(dirs)
    assert source.skipped == (
        (str(dirs / "unlabeled" / "bomb.png"), "more than 1,000 pixels"),
    )


def test_a_real_image_bomb_is_not_decoded(dirs):
    Image.new("1", (20000, 20000)).save(dirs / "unlabeled" / "bomb.png")
    assert "pixels" in load(dirs).skipped[0][1]


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


def test_photos_keep_their_proportions(dirs):
    """A wide image gives its central square."""
    wide = np.zeros((SIZE, 3 * SIZE, 3), np.uint8)
    wide[:, SIZE : 2 * SIZE] = noise(33)
    Image.fromarray(wide).save(dirs / "unlabeled" / "wide.png")
    assert holds(load(dirs), noise(33))


def test_an_image_that_goes_bad_later_is_named(dirs):
    source = load(dirs, resident=False)
    (dirs / "labeled" / "cat" / "2.png").write_bytes(b"")
    with pytest.raises(DataError, match="cat.2.png: empty file"):
        source.read("train", np.array([2]))


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


def everything(source):
    return [
        source.read(split, np.arange(len(source.paths[split])))
        for split in ("train", "test")
    ]


def test_a_second_start_decodes_nothing(dirs, monkeypatch):
    first = load(dirs)
    monkeypatch.setattr(photos, "decode_file", None)  # would fail if called
    second = load(dirs)
    for old, new in zip(everything(first), everything(second), strict=True):
        np.testing.assert_array_equal(old, new)
    same = [field for field in first._fields if field not in ("read", "contents")]
    for field in same:
        np.testing.assert_equal(getattr(second, field), getattr(first, field))
    assert data_digest(second) == data_digest(first)


@pytest.mark.parametrize("keep", ["1", "0"])
def test_what_is_kept_is_what_is_decoded(dirs, monkeypatch, keep):
    """Streaming decodes at every read."""
    monkeypatch.setenv(cache.SWITCH, keep)
    picture(5, (70, 40)).save(dirs / "unlabeled" / "wide.jpg")
    for size in (SIZE, 9):
        streamed = load(dirs, resident=False, image_size=size)
        for _ in range(2):
            kept = load(dirs, image_size=size)
            for one, other in zip(everything(kept), everything(streamed), strict=True):
                np.testing.assert_array_equal(one, other)


def test_only_new_and_changed_photos_are_decoded(dirs, monkeypatch):
    load(dirs)
    decoded = []

    def decode_file(path, channels, real=photos.decode_file):
        decoded.append(os.path.basename(path))
        return real(path, channels)

    monkeypatch.setattr(photos, "decode_file", decode_file)
    picture(91).save(dirs / "unlabeled" / "new.png")
    picture(92).save(dirs / "unlabeled" / "2.png")
    source = load(dirs)
    assert sorted(decoded) == ["2.png", "new.png"]
    assert holds(source, noise(91)) and holds(source, noise(92))
    assert not holds(source, noise(22))


def test_a_photo_that_changes_later_is_named_and_not_kept(dirs, kept):
    source = load(dirs)
    shutil.rmtree(kept)
    picture(95).save(dirs / "labeled" / "cat" / "2.png")
    with pytest.raises(DataError, match="cat.2.png: has changed since the start"):
        source.read("train", np.array([2]))
    np.testing.assert_array_equal(load(dirs).read("train", np.array([2]))[0], noise(95))


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


def test_the_digest_of_photos(dirs):
    def digest():
        return data_digest(load(dirs))

    first = digest()
    shutil.move(dirs / "labeled", dirs / "moved")
    assert data_digest(load(dirs, labeled=str(dirs / "moved"))) == first
    shutil.move(dirs / "moved", dirs / "labeled")
    os.utime(dirs / "labeled" / "cat" / "0.png")
    assert digest() == first  # times are only a shortcut
    (dirs / "unlabeled" / "0.png").rename(dirs / "unlabeled" / "00.png")
    renamed = digest()
    assert changed(first, renamed) == ["unlabeled"]
    picture(77).save(dirs / "test" / "cat" / "t.png")
    (dirs / "labeled" / "dog" / "1.png").unlink()
    assert changed(renamed, digest()) == ["labeled", "test"]
