"""From the bytes of an image file to uint8 pixels of a fixed shape."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from upsilon_jax.errors import ConfigError
from upsilon_jax.runtime import memory

MODES = {1: "L", 3: "RGB"}  # Pillow's names for so many channels

# What is decoded, whatever else Pillow knows: of EPS, for example, it would hand the
# file to Ghostscript, which runs it as a program.
FORMATS = tuple("AVIF BMP GIF JPEG JPEG2000 MPO PNG PPM TIFF WEBP".split())

# More than this is refused before it is decoded: a small file can unpack to terabytes.
# It is Pillow's own limit, about a quarter of a gigabyte of pixels.
MAX_PIXELS = 89_478_485

_PART_BYTES = 2**25  # of images that are at hand beside those that are wanted


class BadImage(Exception):
    """A file that cannot be used as an image; the message is the reason."""


def open_image(file: Any) -> Any:
    """A Pillow image of a path or a binary file; nothing is decoded yet.

    Raises:
      BadImage: it is of no format in `FORMATS`, damaged, too large or unreadable.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(file, formats=_known_formats())
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImage(f"more than {MAX_PIXELS:,} pixels") from error
    except UnidentifiedImageError as error:
        raise BadImage("not an image") from error
    except OSError as error:
        raise BadImage(f"cannot be read ({error.strerror or error})") from error
    except Exception as error:  # parsers of headers raise anything on damaged data
        raise BadImage(f"damaged ({error})") from error
    if image.width * image.height > MAX_PIXELS:
        image.close()
        raise BadImage(f"more than {MAX_PIXELS:,} pixels")
    return image


@functools.cache
def _known_formats() -> list[str]:
    """Those of `FORMATS` that this Pillow was built with."""
    from PIL import Image

    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


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
    """Decodes and stretches a file of a prepared data set to uint8 [H, W, C].

    Raises:
      BadImage: it is not an image, or damaged.
    """
    image = open_image(io.BytesIO(data))
    mode = MODES[shape[2]]
    try:
        return stretch(image if image.mode == mode else image.convert(mode), shape)
    except Exception as error:  # decoders raise anything on damaged data
        raise BadImage(f"damaged or cut off ({error})") from error


def resize(images: np.ndarray, height: int, width: int | None = None) -> np.ndarray:
    """Stretches uint8 images [n, H, W, C] to [n, height, width, C]; None: a square."""
    from PIL import Image

    shape = (height, width or height, images.shape[3])
    if images.shape[1:] == shape:
        return images
    check_room(len(images), shape)
    resized = np.empty((len(images), *shape), np.uint8)
    for i, image in enumerate(images):  # Pillow has no image [H, W, 1]
        image = image[..., 0] if shape[2] == 1 else image
        resized[i] = stretch(Image.fromarray(image), shape)
    return resized


def check_room(count: int, shape: tuple[int, int, int], remedy: str = "") -> None:
    """Raises a ConfigError if so many images [H, W, C] cannot be in memory."""
    wanted, room = count * math.prod(shape), memory.most_bytes()
    if wanted > room:
        raise ConfigError(
            f"data.image_size={shape[0]}: {count:,} images of that size take "
            f"{memory.shown(wanted)}, and there are {memory.shown(room)} of memory"
            f"{remedy}"
        )


def at_once(shape: Sequence[int], most: int) -> int:
    """How many images [H, W, C] to take at a time: `most`, or fewer large ones."""
    return max(1, min(most, _PART_BYTES // math.prod(shape)))


def pillow_version() -> str:
    """Part of the name of kept pixels: another Pillow may decode JPEG differently."""
    import PIL

    return PIL.__version__
