"""RandAugment inside jit, on uint8 batches.

Every image draws its own operations, so a switch under `vmap` would run all branches
one after the other. Here the five geometric operations are one nearest-neighbour warp
whose coefficients come from a table, equalize is one lookup, and the others are cheap
whole-batch functions of which each image keeps its own by `where`, fused into one loop.

Values are Pillow's, in integer arithmetic (tests compare with it): the same on every
device. Magnitudes are integers 1..9, hence every parameter is a table; its entry 0 is
unused. Inside, images are planar, [B, C, H, W]: the pixels of a row are contiguous.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from upsilon_jax.kernels.meshes import on_any_mesh

OPERATIONS = tuple(
    "identity auto_contrast equalize rotate solarize color contrast brightness"
    " sharpness shear_x shear_y translate_x translate_y posterize".split()
)
APPLY_PROBABILITY = 0.5
NUM_LEVELS = 10  # magnitude m of 1..9 stands for the fraction m / 10 of a range
MAX_ROTATION = 30  # degrees
MAX_SHEAR = 0.3
MAX_TRANSLATION = 10 / 32  # of the side: 10 pixels at 32×32

_LEVEL = np.arange(NUM_LEVELS, dtype=np.int32)
_ENHANCE_PERCENT = 180 * _LEVEL // NUM_LEVELS + 10  # factors 0.28 ... 1.72
_SOLARIZE_FROM = 256 - 256 * _LEVEL // NUM_LEVELS  # values 231 ... 26
_POSTERIZE_BITS = 4 * _LEVEL // NUM_LEVELS + 4  # 4 ... 7 bits stay
_ONE = 1 << 16  # fixed point, as in Pillow


def rand_augment(
    images: jax.Array,
    key: jax.Array,
    *,
    num_operations: int = 2,
    operations: tuple[str, ...] = OPERATIONS,
) -> jax.Array:
    """Applies random operations one after the other, drawn anew for every image.

    Each of the `num_operations` rounds picks one of `operations` and a magnitude in
    1..9 uniformly, a sign for the geometric ones, and acts with probability 1/2.

    Args:
      images: [B, H, W, C] uint8.
      key: random key; image i of the batch has draws of its own.
      num_operations: rounds.
      operations: the policy, names in `OPERATIONS`.

    Returns:
      [B, H, W, C] uint8.
    """
    if not operations or not set(operations) <= set(OPERATIONS):
        raise ValueError(f"operations must be some of {OPERATIONS}, got {operations}")
    policy = np.array([OPERATIONS.index(name) for name in operations], np.int32)
    draws = jax.random.uniform(key, (4, num_operations, len(images)), jnp.float32)
    choice = jnp.floor(draws[0] * len(operations)).astype(jnp.int32)
    level = 1 + jnp.floor(draws[1] * (NUM_LEVELS - 1)).astype(jnp.int32)
    negative, applied = draws[2] < 0.5, draws[3] < APPLY_PROBABILITY
    operation = jnp.where(applied, jnp.asarray(policy)[choice], 0)  # 0: identity
    return apply_operations(images, operation, level, negative)


@on_any_mesh
def apply_operations(
    images: jax.Array, operation: jax.Array, level: jax.Array, negative: jax.Array
) -> jax.Array:
    """Applies R rounds of operations, in each of which every image has its own.

    Args:
      images: [B, H, W, C] uint8.
      operation: [R, B] int32, positions in `OPERATIONS`.
      level: [R, B] int32 magnitudes in 1..9.
      negative: [R, B] bool, turns the direction of a geometric operation.

    Returns:
      [B, H, W, C] uint8.
    """
    if images.dtype != jnp.uint8 or images.ndim != 4:
        raise ValueError(
            f"images must be uint8 [B, H, W, C], got {images.dtype} {images.shape}"
        )
    planar = jnp.transpose(images, (0, 3, 1, 2))
    # A scan rather than a Python loop: XLA would fuse the rounds and the transposes
    # into loops that do not vectorise, four times slower on a CPU.
    planar, _ = jax.lax.scan(_round, planar, (operation, level, negative))
    return jnp.transpose(planar, (0, 2, 3, 1))


def _round(images: jax.Array, draws: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
    """One operation each; an image passes unchanged through those it did not draw."""
    operation, level, negative = draws
    table = jnp.asarray(_warp_table(*images.shape[2:]))
    images = _warp(images, table[operation, level, negative.astype(jnp.int32)])
    images = _equalize(images, operation == OPERATIONS.index("equalize"))
    result = images
    for name, function in _PIXELWISE.items():
        chosen = operation == OPERATIONS.index(name)
        result = jnp.where(_per_image(chosen), function(images, level), result)
    return result, None


def _warp_table(height: int, width: int) -> np.ndarray:
    """[operation, level, negative, 6] int32: a b c d e f of (x, y) -> source pixel.

    The five geometric operations (the others keep their place) in 16.16 fixed point:
    source x = (a x + b y + c) >> 16, source y = (d x + e y + f) >> 16, where c and f
    include the half pixel from corner to centre.
    """
    table = np.empty((len(OPERATIONS), NUM_LEVELS, 2, 6), np.int32)
    for i, level, negative in np.ndindex(table.shape[:3]):
        amount = (-level if negative else level) / NUM_LEVELS
        a, b, c, d, e, f = _affine(OPERATIONS[i], amount, height, width)
        c, f = c + 0.5 * (a + b), f + 0.5 * (d + e)
        table[i, level, negative] = np.rint(np.array([a, b, c, d, e, f]) * _ONE)
    return table


def _affine(operation: str, amount: float, height: int, width: int) -> tuple:
    """The inverse map of an operation in pixel-corner coordinates, as Pillow's."""
    if operation == "rotate":
        angle = -math.radians(int(MAX_ROTATION * amount))
        cos, sin, x, y = math.cos(angle), math.sin(angle), width / 2, height / 2
        return cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y
    if operation == "shear_x":
        return 1, MAX_SHEAR * amount, 0, 0, 1, 0
    if operation == "shear_y":
        return 1, 0, 0, MAX_SHEAR * amount, 1, 0
    if operation == "translate_x":
        return 1, 0, int(MAX_TRANSLATION * width * amount), 0, 1, 0
    if operation == "translate_y":
        return 1, 0, 0, 0, 1, int(MAX_TRANSLATION * height * amount)
    return 1, 0, 0, 0, 1, 0


def _warp(images: jax.Array, coefficients: jax.Array) -> jax.Array:
    """Nearest neighbour; black outside. [B, C, H, W], [B, 6] -> [B, C, H, W]."""
    batch, channels, height, width = images.shape
    x = jnp.arange(width, dtype=jnp.int32)[None, None, :]
    y = jnp.arange(height, dtype=jnp.int32)[None, :, None]
    a, b, c, d, e, f = (coefficients[:, i, None, None] for i in range(6))
    column = (a * x + b * y + c) >> 16  # [B, H, W]
    row = (d * x + e * y + f) >> 16
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    # One black pixel is appended for the outside, rather than a `where` that XLA
    # would repeat, coordinates and all, in each of the readers.
    pixels = height * width
    source = jnp.where(inside, row * width + column, pixels).reshape(batch, 1, pixels)
    flat = jnp.pad(images.reshape(batch, channels, pixels), ((0, 0), (0, 0), (0, 1)))
    moved = jnp.take_along_axis(flat, source, axis=2, mode="promise_in_bounds")
    return moved.reshape(images.shape)


def _equalize(images: jax.Array, chosen: jax.Array) -> jax.Array:
    """Maps a value to its rank among the pixels of its channel, in steps of n / 255.

    [B, C, H, W], [B] -> [B, C, H, W]; images that are not chosen stay.
    """
    batch, channels, height, width = images.shape
    flat = images.reshape(batch * channels, height * width).astype(jnp.int32)
    # vmap makes the rows a batch dimension of the scatter: sharded rows stay put.
    histogram = jax.vmap(lambda row: jnp.zeros(256, jnp.float32).at[row].add(1))(flat)
    # The number of darker pixels, a cumulative sum; exact below 2²⁴ pixels.
    before = np.triu(np.ones((256, 256), np.float32), 1)
    darker = jnp.dot(histogram, before, precision="highest")
    brightest = jnp.max(images, axis=(2, 3)).astype(jnp.int32)
    brightest = brightest.reshape(batch * channels, 1)
    step = _divide(jnp.take_along_axis(darker, brightest, axis=1), 255)
    rank = _divide(jnp.floor(step / 2) + darker, jnp.maximum(step, 1))
    active = (step > 0) & jnp.repeat(chosen, channels)[:, None]
    identity = jnp.arange(256, dtype=jnp.float32)[None, :]
    lookup = jnp.where(active, jnp.minimum(rank, 255), identity)
    mapped = jnp.take_along_axis(lookup.astype(jnp.uint8), flat, axis=1)
    return mapped.reshape(images.shape)


# Pixelwise operations: (images [B, C, H, W] uint8, level [B]) -> uint8.


def _auto_contrast(images: jax.Array, level: jax.Array) -> jax.Array:
    """floor(255 (x - min) / (max - min)) in every channel; flat channels stay."""
    low = jnp.min(images, axis=(2, 3), keepdims=True).astype(jnp.float32)
    span = jnp.max(images, axis=(2, 3), keepdims=True).astype(jnp.float32) - low
    x = images.astype(jnp.float32)
    stretched = _divide(255 * (x - low), jnp.maximum(span, 1))
    return jnp.where(span > 0, stretched, x).astype(jnp.uint8)


def _solarize(images: jax.Array, level: jax.Array) -> jax.Array:
    threshold = _per_image(jnp.asarray(_SOLARIZE_FROM)[level])
    return jnp.where(images.astype(jnp.int32) < threshold, images, 255 - images)


def _posterize(images: jax.Array, level: jax.Array) -> jax.Array:
    mask = (0x100 - 2 ** (8 - _POSTERIZE_BITS)).astype(np.uint8)
    return images & _per_image(jnp.asarray(mask)[level])


def _color(images: jax.Array, level: jax.Array) -> jax.Array:
    if images.shape[1] != 3:
        return images  # no colour to fade
    return _enhance(images, _luma(images), level)


def _contrast(images: jax.Array, level: jax.Array) -> jax.Array:
    luma = _luma(images)
    pixels = luma.shape[2] * luma.shape[3]
    total = jnp.sum(luma, axis=(2, 3), keepdims=True)
    return _enhance(images, (2 * total + pixels) // (2 * pixels), level)


def _brightness(images: jax.Array, level: jax.Array) -> jax.Array:
    return _enhance(images, jnp.zeros((1, 1, 1, 1), jnp.int32), level)


def _sharpness(images: jax.Array, level: jax.Array) -> jax.Array:
    """Blends with a 3×3 mean, centre weighted 5 of 13; the outermost pixels stay."""
    height, width = images.shape[2:]
    x = images.astype(jnp.int32)
    padded = jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    box = sum(
        padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)
    )
    # Rounded to nearest: 13 is odd, so there are no ties.
    smooth = _divide((box + 4 * x + 6).astype(jnp.float32), 13).astype(jnp.int32)
    inner = np.pad(np.ones((height - 2, width - 2), bool), 1)[None, None]
    return _enhance(images, jnp.where(inner, smooth, x), level)


def _luma(images: jax.Array) -> jax.Array:
    """ITU-R 601 luma, rounded: int32 [B, 1, H, W]. Other than RGB: mean channel."""
    x = images.astype(jnp.int32)
    channels = x.shape[1]
    if channels != 3:
        total = jnp.sum(x, axis=1, keepdims=True)
        return (2 * total + channels) // (2 * channels)
    red, green, blue = x[:, :1], x[:, 1:2], x[:, 2:]
    return (19595 * red + 38470 * green + 7471 * blue + _ONE // 2) >> 16


def _enhance(images: jax.Array, plain: jax.Array, level: jax.Array) -> jax.Array:
    """Truncates plain + factor (images - plain) to 0..255; plain is int32."""
    percent = _per_image(jnp.asarray(_ENHANCE_PERCENT)[level])
    blended = 100 * plain + percent * (images.astype(jnp.int32) - plain)
    blended = jnp.clip(blended, 0, 100 * 255).astype(jnp.float32)
    return _divide(blended, 100).astype(jnp.uint8)


def _divide(numerator: jax.Array, divisor: jax.Array | int) -> jax.Array:
    """floor(numerator / divisor) of non-negative integers held as float32.

    The half keeps the quotient away from integers, where rounding could go either way,
    and floats vectorise where integer division does not.
    """
    return jnp.floor((numerator + 0.5) / divisor)


def _per_image(values: jax.Array) -> jax.Array:
    return values[:, None, None, None]


_PIXELWISE = {
    "auto_contrast": _auto_contrast,
    "solarize": _solarize,
    "color": _color,
    "contrast": _contrast,
    "brightness": _brightness,
    "sharpness": _sharpness,
    "posterize": _posterize,
}
