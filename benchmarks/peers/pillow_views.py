"""The paper's augmentation image by image with Pillow, as a data loader does it."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageEnhance

from upsilon_jax.kernels.augment import (
    CROP_ATTEMPTS,
    CROP_RATIO,
    CROP_SCALE,
    JITTER,
    JITTER_PROBABILITY,
)

_ENHANCERS = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


def augment(
    images: np.ndarray,
    rng: np.random.Generator,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> np.ndarray:
    """Resized crop, flip and color jitter: uint8 [B, H, W, 3] -> normalised float32."""
    views = np.stack([np.asarray(_view(Image.fromarray(i), rng)) for i in images])
    views = views.astype(np.float32) / 255
    return (views - np.float32(mean)) / np.float32(std)


def _view(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    box = _crop(image.width, image.height, rng)
    image = image.resize(image.size, Image.Resampling.BILINEAR, box=box)
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if rng.random() >= JITTER_PROBABILITY:
        return image
    change = rng.uniform(-1, 1, 4) * JITTER
    for which in rng.permutation(4):
        if which == 3:
            image = _shift_hue(image, change[3])
        else:
            image = _ENHANCERS[which](image).enhance(1 + change[which])
    return image


def _crop(width: int, height: int, rng: np.random.Generator):
    """(left, top, right, bottom) as torchvision draws it."""
    for _ in range(CROP_ATTEMPTS):
        area = width * height * rng.uniform(*CROP_SCALE)
        ratio = math.exp(rng.uniform(*map(math.log, CROP_RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.integers(width - w + 1), rng.integers(height - h + 1)
            return left, top, left + w, top + h
    return 0, 0, width, height


def _shift_hue(image: Image.Image, turns: float) -> Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    shifted = np.asarray(hue) + np.uint8(round(255 * turns) % 256)
    bands = (Image.fromarray(shifted), saturation, value)
    return Image.merge("HSV", bands).convert("RGB")
