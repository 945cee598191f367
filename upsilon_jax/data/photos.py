"""Decoding whatever a folder holds: right, or not at all and with a reason."""

from __future__ import annotations

import os
import stat

import numpy as np

from upsilon_jax.data.images import MODES, BadImage, open_image

_WHITE = (255, 255, 255, 255)


def decode_file(path: str, channels: int, *, at_least: int | None = None):
    """Decodes a file to a Pillow image, upright, in mode "RGB" or "L" (channels 3, 1).

    Of an animation the first frame, of a transparent image what is seen on white, of 16
    bits the upper eight.

    Args:
      path: of the file.
      channels: 3 or 1.
      at_least: so many pixels a side are enough; a JPEG is then decoded smaller, which
        is much faster.

    Raises:
      BadImage: not an image, damaged, too large or unreadable.
    """
    with _open(path) as image:
        try:
            if at_least:
                image.draft(None, (at_least, at_least))
            image.load()
        except Exception as error:  # decoders raise anything on damaged data
            raise BadImage(f"damaged or cut off ({error})") from error
        try:
            return _to_mode(_upright(image), MODES[channels])
        except Exception as error:
            raise BadImage(f"cannot be converted ({error})") from error


def from_array(pixels: np.ndarray, channels: int):
    """The same of pixels in memory: uint8 [H, W], or [H, W, C] with C = 1 to 4."""
    from PIL import Image

    grey = pixels.ndim == 3 and pixels.shape[2] == 1
    image = Image.fromarray(np.ascontiguousarray(pixels[..., 0] if grey else pixels))
    return _to_mode(image, MODES[channels])


def image_header(path: str) -> tuple[int, bool]:
    """(length of the shorter side, whether it is grey), without decoding the pixels."""
    with _open(path) as image:
        return min(image.size), image.mode in ("1", "L", "LA", "I", "I;16", "I;16B")


def _open(path: str):
    """Opens a file as a Pillow image; nothing is decoded yet."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise BadImage(f"cannot be read ({reason})") from error
    if not stat.S_ISREG(status.st_mode):
        raise BadImage("not a regular file")  # reading a pipe would wait for ever
    if not status.st_size:
        raise BadImage("empty file")
    return open_image(path)


def _upright(image):
    """Turned as its EXIF orientation says; as it is if that cannot be read."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # metadata is no reason to lose an image
        return image


def _to_mode(image, mode: str):
    from PIL import Image

    if image.mode.startswith("I"):  # Pillow's own conversion would clip, not scale
        values = np.asarray(image).astype(np.int64)
        image = Image.fromarray((np.clip(values, 0, 2**16 - 1) >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise BadImage("its pixels are floating-point numbers")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, _WHITE), image)
    return image.convert(mode)
