import io

import numpy as np
import pytest
from PIL import Image

from upsilon_jax.data import images


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [5, 7, 20])
def test_planes_are_stretched_independently(channels, size):
    """By Pillow's box filter, one channel at a time."""
    rng = np.random.default_rng(0)
    batch = rng.integers(0, 256, (4, 11, 7, channels), dtype=np.uint8)
    resized = images.resize(batch, size)
    for image, small in zip(batch, resized, strict=True):
        for c in range(channels):
            plane = Image.fromarray(image[..., c])
            expected = plane.resize((size, size), Image.Resampling.BOX)
            np.testing.assert_array_equal(small[..., c], np.asarray(expected))


def test_a_batch_of_the_right_size_is_left_alone():
    batch = np.zeros((2, 6, 6, 3), np.uint8)
    assert images.resize(batch, 6) is batch


@pytest.mark.parametrize("mode", ["L", "RGB", "P", "RGBA"])
def test_decoding_is_stretching_what_the_file_shows(mode):
    rng = np.random.default_rng(1)
    image = Image.fromarray(rng.integers(0, 256, (9, 6, 3), dtype=np.uint8))
    image, file = image.convert(mode), io.BytesIO()
    image.save(file, "png")
    for channels, name in images.MODES.items():
        shape = (4, 5, channels)
        np.testing.assert_array_equal(
            images.decode(file.getvalue(), shape),
            images.FITS["stretch"](image.convert(name), shape),
        )


@pytest.mark.parametrize("fit", images.FITS)
@pytest.mark.parametrize("shape", [(4, 4, 3), (6, 3, 1), (12, 8, 3)])
def test_every_fit_gives_the_shape(fit, shape):
    """(12, 8) is the size of the image itself: it stays as it is."""
    rng = np.random.default_rng(2)
    image = Image.fromarray(rng.integers(0, 256, (12, 8, 3), dtype=np.uint8))
    pixels = images.FITS[fit](image.convert(images.MODES[shape[2]]), shape)
    assert pixels.shape == shape and pixels.dtype == np.uint8
    if shape == (12, 8, 3):
        np.testing.assert_array_equal(pixels, np.asarray(image))


def test_a_crop_keeps_proportions_and_a_stretch_does_not():
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = 200
    wide = Image.fromarray(wide)
    assert (images.FITS["crop"](wide, (8, 8, 3)) == 200).all()
    assert (images.FITS["stretch"](wide, (8, 3, 3))[:, 1] == 200).all()
    assert not images.FITS["stretch"](wide, (8, 3, 3))[:, [0, 2]].any()
