"""Image augmentation inside jit, on whole uint8 batches.

`AUGMENTATIONS` maps a name to a function (images, key, *, flip); `views` applies some
of them and normalises. Every image of a batch has draws of its own, all from one key.

Geometry is two small matrix products an image, whose rows hold the bilinear weights of
the source pixels: no gathers, and integer positions reproduce pixels exactly. Inside,
images are planar, [B, C, H, W]: the pixels of a row are contiguous.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.arguments import ArrayLike
from upsilon_jax.kernels.cutout import cutout
from upsilon_jax.kernels.randaugment import rand_augment

CROP_SCALE = (0.2, 1.0)  # share of the image's area
CROP_RATIO = (3 / 4, 4 / 3)  # width / height
CROP_ATTEMPTS = 10  # boxes drawn until one fits, as torchvision does
PAD_DIVISOR = 8  # the weak crop moves by 1/8 of the side, 4 pixels at 32×32
JITTER_PROBABILITY = 0.8
# Half-widths of the uniform changes of brightness, contrast, saturation and hue; a
# whole turn of hue is 1.
JITTER = (0.4, 0.4, 0.4, 0.1)
LUMA = (0.299, 0.587, 0.114)  # ITU-R 601
MIN_SIDE = 4


# Augmentations: uint8 [B, H, W, C] -> float32 [B, H, W, C] in [0, 1]. Not all use the
# key; `flip` allows mirroring.


def none(images: jax.Array, key: jax.Array, *, flip: bool = True) -> jax.Array:
    """Only scales to [0, 1]."""
    return _interleaved(_planar(images) / 255)


def weak(images: jax.Array, key: jax.Array, *, flip: bool = True) -> jax.Array:
    """Horizontal flip, and a crop after reflecting 1/8 of the side at the borders."""
    return _interleaved(_weak_pixels(images, key, flip) / 255)


def paper(images: jax.Array, key: jax.Array, *, flip: bool = True) -> jax.Array:
    """The paper's list: random resized crop, color distortion, horizontal flip.

    It gives no strengths: ours are the constants above.
    """
    planar = _planar(images)
    batch, _, height, width = planar.shape
    crop_key, flip_key, jitter_key = jax.random.split(key, 3)
    top, left, crop_height, crop_width = sample_crops(crop_key, batch, height, width)
    rows = crop_positions(top, crop_height, height)
    columns = crop_positions(left, crop_width, width)
    columns = _reverse_half(columns, flip_key, flip, axis=1)
    return _interleaved(color_jitter(resample(planar, rows, columns) / 255, jitter_key))


def randaug(images: jax.Array, key: jax.Array, *, flip: bool = True) -> jax.Array:
    """`weak`, then two random operations of RandAugment, then a cutout."""
    weak_key, operation_key, cutout_key = jax.random.split(key, 3)
    pixels = _interleaved(_weak_pixels(images, weak_key, flip)).astype(jnp.uint8)
    return none(cutout(rand_augment(pixels, operation_key), cutout_key), key)


AUGMENTATIONS = {
    "none": none,
    "weak": weak,
    "paper": paper,
    "randaug": randaug,
}


def normalize(images: jax.Array, mean: ArrayLike, std: ArrayLike) -> jax.Array:
    """(images - mean) / std per channel: [..., C] in [0, 1], [C], [C] -> [..., C]."""
    mean, std = jnp.asarray(mean, jnp.float32), jnp.asarray(std, jnp.float32)
    if not mean.shape == std.shape == images.shape[-1:]:
        shapes = f"{images.shape[-1:]}, got {mean.shape} and {std.shape}"
        raise ValueError(f"mean and std must have shape {shapes}")
    per_channel = (1,) * (images.ndim - 1) + mean.shape
    return (images - mean.reshape(per_channel)) / std.reshape(per_channel)


def views(
    images: jax.Array,
    key: jax.Array,
    names: tuple[str, ...],
    *,
    flip: bool = True,
    mean: ArrayLike,
    std: ArrayLike,
) -> jax.Array:
    """Augments a batch once for every name, each time with draws of its own.

    Args:
      images: [B, H, W, C] uint8.
      key: random key; view v draws from `fold_in(key, v)`.
      names: V keys of `AUGMENTATIONS`.
      flip: whether images may be mirrored (not digits).
      mean: [C], of pixels in [0, 1].
      std: [C], likewise.

    Returns:
      [V, B, H, W, C] float32, normalised.
    """
    unknown = [name for name in names if name not in AUGMENTATIONS]
    if unknown:
        raise ValueError(
            f"augmentation must be in {list(AUGMENTATIONS)}, got {unknown}"
        )
    if not names:
        return jnp.zeros((0, *images.shape), jnp.float32)
    augmented = [
        AUGMENTATIONS[name](images, jax.random.fold_in(key, v), flip=flip)
        for v, name in enumerate(names)
    ]
    return normalize(jnp.stack(augmented), mean, std)


# Geometry, on planar images.


def sample_crops(
    key: jax.Array, batch: int, height: int, width: int
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Boxes (top, left, height, width) as torchvision draws them, [B] int32 each.

    Area uniform in `CROP_SCALE`, log aspect ratio uniform in `CROP_RATIO`, sides
    rounded to pixels; the first of `CROP_ATTEMPTS` boxes that fits, else the first
    one cut to the image.
    """
    draws = jax.random.uniform(key, (batch, 2 * CROP_ATTEMPTS + 2), jnp.float32)
    scale, ratio = draws[:, :CROP_ATTEMPTS], draws[:, CROP_ATTEMPTS:-2]
    area = height * width * (CROP_SCALE[0] + (CROP_SCALE[1] - CROP_SCALE[0]) * scale)
    low, high = map(math.log, CROP_RATIO)
    aspect = jnp.exp(low + (high - low) * ratio)
    box = jnp.stack([jnp.sqrt(area / aspect), jnp.sqrt(area * aspect)])
    box = jnp.round(box).astype(jnp.int32)  # [2, B, attempts]
    fits = (box[0] <= height) & (box[1] <= width)
    first = jnp.argmax(fits, axis=1)[None, :, None]  # 0 if none fits
    box = jnp.take_along_axis(box, first, axis=2)[:, :, 0]
    box_height, box_width = jnp.clip(box[0], 1, height), jnp.clip(box[1], 1, width)
    top = jnp.floor(draws[:, -2] * (height - box_height + 1)).astype(jnp.int32)
    left = jnp.floor(draws[:, -1] * (width - box_width + 1)).astype(jnp.int32)
    return top, left, box_height, box_width


def crop_positions(start: jax.Array, length: jax.Array, size: int) -> jax.Array:
    """Source positions [B, size] of pixels stretched over a crop [start, + length).

    Pixel i is centred at start + (i + 1/2) length / size - 1/2, held inside the crop.
    """
    i, length = jnp.arange(size, dtype=jnp.float32)[None, :], length[:, None]
    offset = i + (i + 0.5) * (length - size) / size  # exactly i if length = size
    return start[:, None] + jnp.clip(offset, 0, length - 1)


def resample(images: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Bilinear interpolation on a grid: out[i, j] = image(rows[i], columns[j]).

    Two products with the weights max(0, 1 - |position - pixel|).

    Args:
      images: [B, C, H, W] float32.
      rows: [B, H'] positions in [0, H - 1].
      columns: [B, W'] positions in [0, W - 1].

    Returns:
      [B, C, H', W'] float32.
    """

    def weights(position, size):  # [B, size', size]
        pixel = jnp.arange(size, dtype=jnp.float32)[None, None, :]
        return jnp.maximum(0, 1 - jnp.abs(position[:, :, None] - pixel))

    rows, columns = weights(rows, images.shape[2]), weights(columns, images.shape[3])
    # "highest": accelerators would round weights to bfloat16, an error of one level.
    images = jnp.einsum("bih,bchw->bciw", rows, images, precision="highest")
    return jnp.einsum("bjw,bciw->bcij", columns, images, precision="highest")


def _weak_pixels(images: jax.Array, key: jax.Array, flip: bool) -> jax.Array:
    """`weak`, planar, in [0, 255]: positions are integers, so pixels are exact."""
    planar = _planar(images)
    batch, _, height, width = planar.shape
    shift_key, flip_key = jax.random.split(key)
    draws = jax.random.uniform(shift_key, (2, batch, 1), jnp.float32)

    def positions(draw, size):  # [B, 1] -> [B, size], reflected at both ends
        pad = size // PAD_DIVISOR
        shift = jnp.floor(draw * (2 * pad + 1)) - pad
        position = jnp.arange(size, dtype=jnp.float32)[None, :] + shift
        return size - 1 - jnp.abs(size - 1 - jnp.abs(position))

    columns = _reverse_half(positions(draws[1], width), flip_key, flip, axis=1)
    return resample(planar, positions(draws[0], height), columns)


def _reverse_half(x: jax.Array, key: jax.Array, flip: bool, axis: int) -> jax.Array:
    """Reverses an axis for half of the rows of x, or for none."""
    draw = jax.random.uniform(key, (len(x),) + (1,) * (x.ndim - 1), jnp.float32)
    return jnp.where(draw < (0.5 if flip else 0), jnp.flip(x, axis), x)


# Color, on planar images in [0, 1].


def color_jitter(images: jax.Array, key: jax.Array) -> jax.Array:
    """Changes brightness, contrast, saturation and hue, in random order."""
    draws = jax.random.uniform(key, (3, len(images), 4), jnp.float32)
    applied = draws[0, :, :1] < JITTER_PROBABILITY
    widths = jnp.asarray(JITTER, jnp.float32)[None, :]
    change = jnp.where(applied, (2 * draws[1] - 1) * widths, 0)
    place = jnp.sum(draws[2][:, None, :] < draws[2][:, :, None], axis=-1)
    return distort(images, change, place)


def distort(images: jax.Array, change: jax.Array, place: jax.Array) -> jax.Array:
    """Applies four changes in an order of each image's own.

    The hue is the costly one: it is computed once, between three slots for the blends
    that come earlier and three for the others; a slot not taken changes nothing.
    Images other than RGB have brightness and contrast only.

    Args:
      images: [B, C, H, W] float32 in [0, 1].
      change: [B, 4], of brightness, contrast, saturation (factor - 1) and hue (turns).
      place: [B, 4] int, permutations of 0..3: when each of the four takes its turn.

    Returns:
      [B, C, H, W] float32 in [0, 1].
    """
    turn, hue_turn = place[:, :3], place[:, 3:]
    slot = jnp.where(turn < hue_turn, turn, turn + 3)  # slot 3 is the hue's
    for s in range(7):
        if s != 3:
            images = _blend(images, jnp.where(slot == s, change[:, :3], 0))
        elif images.shape[1] == 3:
            images = shift_hue(images, change[:, 3])
    return images


def _blend(images: jax.Array, change: jax.Array) -> jax.Array:
    """Clips x + change · (x - plain); plain is black, the mean luma, or the luma."""
    # Without the barrier XLA would repeat all earlier blends in both of x's readers.
    images = jax.lax.optimization_barrier(images)
    brightness, contrast, saturation = change.T[:, :, None, None, None]
    if images.shape[1] == 3:
        luma = sum(w * images[:, i : i + 1] for i, w in enumerate(LUMA))
    else:
        luma, saturation = jnp.mean(images, axis=1, keepdims=True), 0.0
    mean = jnp.mean(luma, axis=(2, 3), keepdims=True)
    factor = 1 + brightness + contrast + saturation
    return jnp.clip(factor * images - contrast * mean - saturation * luma, 0, 1)


def shift_hue(images: jax.Array, turns: jax.Array) -> jax.Array:
    """Turns the hue of HSV: [B, 3, H, W] in [0, 1], [B] -> [B, 3, H, W].

    A channel is V - V S · max(0, min(k, 4 - k, 1)), k = (n + hue / 60°) mod 6, with
    n = 5, 3, 1 for red, green and blue; V S is the largest minus the smallest channel.
    """
    red, green, blue = images[:, 0], images[:, 1], images[:, 2]
    value = jnp.maximum(jnp.maximum(red, green), blue)
    chroma = value - jnp.minimum(jnp.minimum(red, green), blue)
    scale = 1 / jnp.where(chroma > 0, chroma, 1)
    # Not `value == red`: computed in two fused loops, they may round differently.
    is_red = (red >= green) & (red >= blue)
    hue = jnp.where(green >= blue, 2 + (blue - red) * scale, 4 + (red - green) * scale)
    hue = jnp.where(is_red, (green - blue) * scale, hue) + 6 * turns[:, None, None]

    def channel(n):
        k = n + hue
        k = k - 6 * jnp.floor(k / 6)
        return value - chroma * jnp.clip(jnp.minimum(k, 4 - k), 0, 1)

    return jnp.stack([channel(5), channel(3), channel(1)], axis=1)


def _planar(images: jax.Array) -> jax.Array:
    """uint8 [B, H, W, C] -> float32 [B, C, H, W], same values."""
    shape = images.shape
    if images.dtype != jnp.uint8 or len(shape) != 4 or min(shape[1:3]) < MIN_SIDE:
        expected = f"uint8 [B, H, W, C] with H, W ≥ {MIN_SIDE}"
        raise ValueError(f"images must be {expected}, got {images.dtype} {shape}")
    return jnp.transpose(images, (0, 3, 1, 2)).astype(jnp.float32)


def _interleaved(planar: jax.Array) -> jax.Array:
    return jnp.transpose(planar, (0, 2, 3, 1))
