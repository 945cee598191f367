"""Each fault of a photo, by name: decoded right, or skipped and listed."""

import os

import numpy as np
import pytest
from PIL import Image

from tests.data.photo_folder import SIZE, holds, load, noise, picture, unlabeled_pixels
from upsilon_jax.data import images, photos
from upsilon_jax.errors import DataError

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


@pytest.mark.parametrize("name", ["RGBA.png", "LA.png", "PA.tiff", "RGBA.webp"])
def test_alpha_is_seen_on_white(dirs, name):
    alpha = Image.new("L", (SIZE, SIZE), 255)
    alpha.paste(0, (0, 0, SIZE // 2, SIZE))
    image = Image.new("RGB", (SIZE, SIZE), (40, 40, 40))
    image.putalpha(alpha)
    path = dirs / "unlabeled" / name
    image.convert(path.stem).save(path, lossless=True)
    with Image.open(path) as saved:
        assert saved.mode == path.stem
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


def test_photos_keep_their_proportions(dirs):
    """A wide image gives its central square."""
    wide = np.zeros((SIZE, 3 * SIZE, 3), np.uint8)
    wide[:, SIZE : 2 * SIZE] = noise(33)
    Image.fromarray(wide).save(dirs / "unlabeled" / "wide.png")
    assert holds(load(dirs), noise(33))


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


def test_an_image_bomb_is_not_decoded(dirs, monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    Image.new("L", (40, 40)).save(dirs / "unlabeled" / "bomb.png")
    source = load(dirs)
    assert source.skipped == (
        (str(dirs / "unlabeled" / "bomb.png"), "more than 1,000 pixels"),
    )


def test_a_real_image_bomb_is_not_decoded(dirs):
    Image.new("1", (20000, 20000)).save(dirs / "unlabeled" / "bomb.png")
    assert "pixels" in load(dirs).skipped[0][1]


def test_an_image_that_goes_bad_later_is_named(dirs):
    source = load(dirs, resident=False)
    (dirs / "labeled" / "cat" / "2.png").write_bytes(b"")
    with pytest.raises(DataError, match="cat.2.png: empty file"):
        source.read("train", np.array([2]))
