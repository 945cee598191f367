"""Damaged photos of every common format: read, or skipped with a reason."""

import functools
import io
import pathlib
import tempfile

import numpy as np
from PIL import Image

from tests.faults import mutations
from upsilon_jax.data import images, photos

SIZE = (13, 9)
# Larger ones are refused. Production allows more, which takes longer to be found out.
MAX_PIXELS = 2**20
# Format -> (modes, options of Pillow, what changes its parts)
FORMATS = {
    "PNG": (("1", "L", "P", "RGB", "RGBA", "I;16"), ({},), mutations.of_png),
    "JPEG": (
        ("L", "RGB", "CMYK"),
        ({}, {"progressive": True}, {"exif": b"Exif\0\0MM\0*\0\0\0\b\0\0"}),
        mutations.of_jpeg,
    ),
    "WEBP": (("RGB", "RGBA"), ({}, {"lossless": True}), mutations.of_riff),
    "TIFF": (
        ("L", "RGB", "RGBA", "I;16"),
        ({}, {"compression": "tiff_lzw"}, {"compression": "tiff_deflate"}),
        mutations.of_tiff,
    ),
    "GIF": (("P", "L"), ({},), mutations.of_bytes),
    "BMP": (("L", "RGB"), ({},), mutations.of_bytes),
}


@functools.cache
def originals():
    """(format, bytes, decoded) of every format, mode and option."""
    rng, found = np.random.default_rng(0), []
    smooth = np.add.outer(np.arange(SIZE[1]), np.arange(SIZE[0])) * 11 % 256
    noise = rng.integers(0, 40, (*smooth.shape, 4))
    for name, (modes, options, _) in FORMATS.items():
        for mode in modes:
            if mode == "I;16":
                image = Image.fromarray((smooth * 256).astype(np.uint16))
            else:
                pixels = (smooth[..., None] + noise).clip(0, 255).astype(np.uint8)
                image = Image.fromarray(pixels).convert("RGB").convert(mode)
            for keywords in options:
                file = io.BytesIO()
                image.save(file, name, **keywords)
                found.append((name, file.getvalue(), whole(file.getvalue())))
    return found


def whole(data):
    """What the undamaged file shows."""
    with tempfile.TemporaryDirectory() as folder:
        return decoded(data, pathlib.Path(folder))


def decoded(data, folder, channels=3):
    """uint8 [H, W, C]; None if it is refused, with a reason."""
    path = folder / "photo"
    path.write_bytes(data)
    try:
        image = photos.decode_file(str(path), channels)
    except photos.BadImage as reason:
        assert str(reason) and len(str(reason)) < 1000
        return None
    pixels = np.asarray(image)
    assert pixels.dtype == np.uint8 and pixels.size
    assert pixels.shape[2:] == ((3,) if channels == 3 else ())
    assert image.width * image.height <= images.MAX_PIXELS
    return pixels


def changed(rng, folder):
    """Bytes or parts of a file changed: pixels of some size, or a reason."""
    name, data, _ = originals()[rng.integers(len(originals()))]
    change = mutations.of_bytes if rng.random() < 0.4 else FORMATS[name][2]
    data = change(rng, data)
    pixels = decoded(data, folder, int(rng.choice([1, 3])))
    if rng.random() < 0.3:
        try:
            fitted = images.decode(data, (8, 8, 3))
            assert fitted.shape == (8, 8, 3) and fitted.dtype == np.uint8
        except images.BadImage as reason:
            assert str(reason)
    return 1, pixels is not None


def cut(rng, folder):
    """A file that ends early: the same pixels, if all were there, or a reason."""
    _, data, expected = originals()[rng.integers(len(originals()))]
    pixels = decoded(mutations.cut(rng, data), folder)
    assert pixels is None or np.array_equal(pixels, expected)
    return 1, pixels is not None
