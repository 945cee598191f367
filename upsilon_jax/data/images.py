"""From the bytes of an image file to uint8 pixels of a fixed shape."""

from __future__ import annotations

import io

import numpy as np


def decode(data: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    """Decodes a file of a prepared data set to uint8 [H, W, C].

    An image of another size is stretched to (H, W) with a box filter, as the published
    down-sampled ImageNet was made.
    """
    from PIL import Image

    height, width, channels = shape
    image = Image.open(io.BytesIO(data))
    mode = {1: "L", 3: "RGB"}[channels]
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BOX)
    return np.asarray(image).reshape(shape)


def resize(images: np.ndarray, image_size: int) -> np.ndarray:
    """Stretches uint8 images [n, H, W, C] to [n, image_size, image_size, C]."""
    from PIL import Image

    if images.shape[1:3] == (image_size, image_size):
        return images
    # Pillow has no one-channel [H, W, 1] image: planes are resized one by one.
    planes = np.moveaxis(images, 3, 1).reshape(-1, *images.shape[1:3])
    box = Image.Resampling.BOX
    small = [Image.fromarray(p).resize((image_size,) * 2, box) for p in planes]
    small = np.stack([np.asarray(p) for p in small])
    small = small.reshape(len(images), images.shape[3], image_size, image_size)
    return np.ascontiguousarray(np.moveaxis(small, 1, 3))
