"""From the bytes of an image file to uint8 pixels of a fixed shape."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

MODES = {1: "L", 3: "RGB"}  # Pillow's names for so many channels


def stretch(image: Any, shape: tuple[int, int, int]) -> np.ndarray:
    """A Pillow image "L" or "RGB" to uint8 [H, W, C], whatever its proportions.

    By a box filter, as the published down-sampled ImageNet was made.
    """
    from PIL import Image

    height, width, _ = shape
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BOX)
    return np.asarray(image).reshape(shape)


def crop(image: Any, shape: tuple[int, int, int]) -> np.ndarray:
    """The central part with the proportions H : W, bicubic, as uint8 [H, W, C]."""
    from PIL import Image, ImageOps

    height, width, _ = shape
    bicubic = Image.Resampling.BICUBIC
    pixels = np.asarray(ImageOps.fit(image, (width, height), method=bicubic))
    return pixels.reshape(shape)


# `Source.fit`: (Pillow image in the mode of C channels, (H, W, C)) -> uint8 [H, W, C]
FITS: dict[str, Callable[[Any, tuple[int, int, int]], np.ndarray]] = {
    "crop": crop,
    "stretch": stretch,
}


def decode(data: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    """Decodes and stretches a file of a prepared data set to uint8 [H, W, C]."""
    from PIL import Image

    image = Image.open(io.BytesIO(data))
    mode = MODES[shape[2]]
    return stretch(image if image.mode == mode else image.convert(mode), shape)


def resize(images: np.ndarray, height: int, width: int | None = None) -> np.ndarray:
    """Stretches uint8 images [n, H, W, C] to [n, height, width, C]; None: a square."""
    from PIL import Image

    shape = (height, width or height, images.shape[3])
    if images.shape[1:] == shape:
        return images
    resized = np.empty((len(images), *shape), np.uint8)
    for i, image in enumerate(images):  # Pillow has no image [H, W, 1]
        image = image[..., 0] if shape[2] == 1 else image
        resized[i] = stretch(Image.fromarray(image), shape)
    return resized


def pillow_version() -> str:
    """Part of the name of kept pixels: another Pillow may decode JPEG differently."""
    import PIL

    return PIL.__version__
