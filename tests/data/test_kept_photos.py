"""Photos that were decoded once: which are decoded again, and what tells them apart."""

import os
import shutil

import numpy as np
import pytest

from tests.data.photo_folder import SIZE, holds, load, noise, picture
from upsilon_jax.data import album, cache, images, photos
from upsilon_jax.data.digest import changed, data_digest
from upsilon_jax.errors import ConfigError, DataError
from upsilon_jax.runtime import memory


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


@pytest.mark.parametrize(("resident", "most"), [(True, 3), (False, 10)])
def test_only_few_large_photos_wait_to_be_kept(dirs, monkeypatch, resident, most):
    waiting = []

    def keep(self, keys, facts, seen, real=album.Album._keep):
        waiting.append(len(seen))
        real(self, keys, facts, seen)

    monkeypatch.setattr(album.Album, "_keep", keep)
    monkeypatch.setattr(images, "_PART_BYTES", 3 * SIZE * SIZE * 3)
    found = everything(load(dirs, resident=resident, channels=3))
    assert max(waiting) == most  # pixels that are not kept do not wait
    monkeypatch.undo()
    monkeypatch.setenv(cache.SWITCH, "0")
    for one, other in zip(found, everything(load(dirs, channels=3)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_photos_that_cannot_be_held_are_refused_before_they_are_decoded(
    dirs, monkeypatch
):
    monkeypatch.setattr(memory, "most_bytes", lambda: 15 * SIZE * SIZE * 3)
    load(dirs)  # 16 photos, on disk until a split asks for some of them
    monkeypatch.setenv(cache.SWITCH, "0")
    monkeypatch.setattr(photos, "decode_file", None)  # would fail if called
    with pytest.raises(ConfigError) as error:
        load(dirs, resident=True)
    assert str(error.value) == (
        "data.image_size=16: 16 images of that size take 12 KiB, and there are "
        "11.2 KiB of memory (data.residency=stream reads them from disk)"
    )
    monkeypatch.undo()
    load(dirs, resident=False)


@pytest.mark.parametrize("resident", [True, False])
def test_a_photo_that_changes_later_is_named_and_not_kept(dirs, kept, resident):
    source = load(dirs, resident=resident)
    shutil.rmtree(kept)
    picture(95).save(dirs / "labeled" / "cat" / "2.png")
    with pytest.raises(DataError, match="cat.2.png: has changed since the start"):
        source.read("train", np.array([2]))
    again = load(dirs, resident=resident).read("train", np.array([2]))
    np.testing.assert_array_equal(again[0], noise(95))


def test_a_streamed_photo_is_hashed_only_where_its_file_seems_another(
    dirs, monkeypatch
):
    source, hashed = load(dirs, resident=False), []
    digest = lambda image, real=album._pixel_digest: hashed.append(1) or real(image)
    monkeypatch.setattr(album, "_pixel_digest", digest)
    one = np.array([2])
    before = source.read("train", one)
    assert not hashed
    os.utime(dirs / "labeled" / "cat" / "2.png")  # the same pixels at another time
    np.testing.assert_array_equal(source.read("train", one), before)
    assert hashed


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
