"""RandAugment against Pillow, operation by operation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from PIL import Image, ImageEnhance, ImageOps

from upsilon_jax.kernels.cutout import cutout
from upsilon_jax.kernels.randaugment import (
    OPERATIONS,
    apply_operations,
    rand_augment,
)

SHAPES = ((32, 32, 3), (20, 28, 3), (8, 8, 1))
LEVELS = np.arange(1, 10)
ENHANCERS = {
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "brightness": ImageEnhance.Brightness,
    "sharpness": ImageEnhance.Sharpness,
}
apply_jit = jax.jit(apply_operations)


def pillow(name, image, level, negative):
    """One operation by Pillow, parameters written out as the published policy has them.

    uint8 [H, W, C] -> uint8 [H, W, C].
    """
    picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    width, height = picture.size
    sign = -1 if negative else 1

    def affine(*coefficients):
        return picture.transform(picture.size, Image.Transform.AFFINE, coefficients)

    if name in ENHANCERS:
        out = ENHANCERS[name](picture).enhance(1.8 * level / 10 + 0.1)
    else:
        out = {
            "identity": lambda: picture,
            "auto_contrast": lambda: ImageOps.autocontrast(picture),
            "equalize": lambda: ImageOps.equalize(picture),
            "solarize": lambda: ImageOps.solarize(picture, 256 - int(25.6 * level)),
            "posterize": lambda: ImageOps.posterize(picture, 4 + int(0.4 * level)),
            "rotate": lambda: picture.rotate(sign * 3 * level),
            "shear_x": lambda: affine(1, sign * 0.03 * level, 0, 0, 1, 0),
            "shear_y": lambda: affine(1, 0, 0, sign * 0.03 * level, 1, 0),
            "translate_x": lambda: affine(1, 0, sign * (width * level // 32), 0, 1, 0),
            "translate_y": lambda: affine(1, 0, 0, 0, 1, sign * (height * level // 32)),
        }[name]()
    return np.asarray(out).reshape(image.shape)


def pictures(shape):
    """Noise, low contrast, two values, one value, a gradient: [5, H, W, C] uint8."""
    rng = np.random.default_rng(0)
    height, width, channels = shape
    gradient = np.linspace(0, 255, height * width).reshape(height, width, 1)
    return np.stack(
        [
            rng.integers(0, 256, shape),
            rng.integers(97, 140, shape),
            np.where(rng.random(shape) < 0.9, 30, 200),
            np.full(shape, 77),
            np.broadcast_to(gradient, shape),
        ]
    ).astype(np.uint8)


def may_differ(name, image, level):
    """Where Pillow's floating point may truncate an exact integer to the one below."""
    if name == "auto_contrast":
        x = image.astype(np.int64)
        low, high = x.min((0, 1)), x.max((0, 1))
        return (255 * (x - low)) % np.maximum(high - low, 1) == 0
    if name in ENHANCERS:
        picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        plain = np.asarray(ENHANCERS[name](picture).degenerate)
        plain = plain.reshape(image.shape).astype(np.float64)
        exact = plain + (1.8 * level / 10 + 0.1) * (image - plain)
        return np.abs(exact - np.rint(exact)) < 1e-4
    return np.zeros(image.shape, bool)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_pillows(name, shape):
    cases = [
        (image, level, negative)
        for image in pictures(shape)
        for level in LEVELS
        for negative in (False, True)
    ]
    images, level, negative = map(np.stack, zip(*cases, strict=True))
    operation = np.full(len(cases), OPERATIONS.index(name), np.int32)
    got = np.asarray(
        apply_jit(images, operation[None], level[None].astype(np.int32), negative[None])
    )
    for case, out in zip(cases, got, strict=True):
        difference = np.abs(out.astype(int) - pillow(name, *case).astype(int))
        # We compute in integers, Pillow in floats: one level, at exact integers only.
        assert difference.max() <= 1
        assert not difference[~may_differ(name, *case[:2])].any()


def test_each_image_gets_its_own_operation_and_rounds_compose():
    image = pictures((32, 32, 3))[0]
    # Exact operations only, so that the second round starts from the same image.
    exact = [n for n in OPERATIONS if n not in ENHANCERS and n != "auto_contrast"]
    pairs = [(first, second) for first in exact for second in exact]
    rng = np.random.default_rng(1)
    level = rng.integers(1, 10, (2, len(pairs))).astype(np.int32)
    negative = rng.random((2, len(pairs))) < 0.5
    operation = np.array([[OPERATIONS.index(n) for n in p] for p in pairs], np.int32).T
    images = np.broadcast_to(image, (len(pairs), *image.shape))
    got = np.asarray(apply_jit(images, operation, level, negative))
    for i, (first, second) in enumerate(pairs):
        expected = pillow(first, image, level[0, i], negative[0, i])
        expected = pillow(second, expected, level[1, i], negative[1, i])
        np.testing.assert_array_equal(got[i], expected, err_msg=f"{first}, {second}")


@pytest.mark.parametrize("shape", [(4, 5, 1), (16, 16, 3)])
def test_identity_policy_returns_the_images(shape):
    images = np.random.default_rng(0).integers(0, 256, (6, *shape)).astype(np.uint8)
    key = jax.random.key(0)
    out = jax.jit(lambda x: rand_augment(x, key, operations=("identity",)))(images)
    np.testing.assert_array_equal(out, images)
    assert out.dtype == jnp.uint8


def test_two_channels_have_no_colour_but_contrast():
    images = np.random.default_rng(0).integers(0, 256, (1, 8, 8, 2)).astype(np.uint8)

    def apply(name):
        draws = ([[OPERATIONS.index(name)]], [[9]], [[False]])
        return np.asarray(apply_jit(images, *map(np.array, draws)))

    np.testing.assert_array_equal(apply("color"), images)
    luma = np.floor(images.astype(np.float64).mean(-1) + 0.5)
    mean = np.floor(luma.mean() + 0.5)
    exact = np.clip(mean + 1.72 * (images - mean), 0, 255)
    # The offset settles exact integers, which float64 may have put just below.
    np.testing.assert_array_equal(apply("contrast"), np.floor(exact + 1e-9))


@pytest.mark.slow
def test_draws_follow_the_stated_law():
    n = 8192
    images = np.full((n, 4, 4, 1), 100, np.uint8)
    one_round = jax.jit(
        functools.partial(rand_augment, num_operations=1), static_argnames="operations"
    )
    out = one_round(images, jax.random.key(0), operations=("brightness",))
    values, counts = np.unique(np.asarray(out)[:, 0, 0, 0], return_counts=True)
    np.testing.assert_array_equal(values, 18 * LEVELS + 10)
    expected = np.full(9, n / 18)
    expected[4] += n / 2  # factor 1, or not applied
    # 5 standard deviations of a binomial count.
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()

    ramp = np.broadcast_to(np.arange(32, dtype=np.uint8)[:, None], (n // 8, 4, 32, 1))
    moved = one_round(ramp, jax.random.key(1), operations=("translate_x",))
    left = np.mean(np.asarray(moved)[:, 0, 16, 0] > 16)
    right = np.mean(np.asarray(moved)[:, 0, 16, 0] < 16)
    assert abs(left - 0.25) < 0.07 and abs(right - 0.25) < 0.07  # 5 sd of 1024 draws


def test_images_of_a_batch_draw_independently_and_keys_decide():
    image = pictures((16, 16, 3))[0]
    images = np.repeat(image[None], 64, 0)
    augment = jax.jit(rand_augment)
    first, again, other = (
        np.asarray(augment(images, jax.random.key(s))) for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    # A quarter is expected to stay as it is; the rest are hardly ever alike.
    assert len({out.tobytes() for out in first}) > 32


@pytest.mark.parametrize("shape", [(32, 32, 3), (8, 8, 1), (12, 20, 2), (5, 5, 1)])
def test_cutout_greys_a_rectangle_of_at_most_half_the_side(shape):
    n, side = 512, min(shape[:2]) // 2
    images = np.zeros((n, *shape), np.uint8)
    out = np.asarray(jax.jit(cutout)(images, jax.random.key(0)))
    assert set(np.unique(out)) == {0, 127}
    hole = out[..., 0] == 127
    np.testing.assert_array_equal(out == 127, np.repeat(hole[..., None], shape[2], -1))
    area = hole.sum((1, 2))
    assert area.max() == side**2 and area.min() > 0
    rows, columns = hole.any(2).sum(1), hole.any(1).sum(1)
    np.testing.assert_array_equal(area, rows * columns)  # filled rectangles
    assert hole.any(0).all()  # every pixel can be hit
    assert len({h.tobytes() for h in hole}) > side


def test_bad_arguments_are_named():
    images = jnp.zeros((2, 8, 8, 3), jnp.uint8)
    shapes = functools.partial(jax.eval_shape, rand_augment)
    with pytest.raises(ValueError, match="invert"):
        rand_augment(images, jax.random.key(0), operations=("invert",))
    with pytest.raises(ValueError, match="float32"):
        shapes(images.astype(jnp.float32), jax.random.key(0))
    with pytest.raises(ValueError, match=r"\(8, 8, 3\)"):
        shapes(images[0], jax.random.key(0))


@pytest.mark.slow
def test_rows_on_many_devices_stay_where_they_are(rows_over_8_devices):
    images = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 3)).astype(np.uint8)
    augment = jax.jit(lambda images, key: cutout(rand_augment(images, key), key))
    key = jax.random.key(3)
    sharded = rows_over_8_devices(images)
    text = augment.lower(sharded, key).compile().as_text()
    for collective in ("all-gather", "all-reduce", "all-to-all", "collective-permute"):
        assert collective not in text
    np.testing.assert_array_equal(augment(sharded, key), augment(images, key))


def test_lowers_for_tpu_and_cuda():
    images = jax.ShapeDtypeStruct((8, 32, 32, 3), jnp.uint8)
    key = jax.eval_shape(lambda: jax.random.key(0))
    exported = export.export(jax.jit(rand_augment), platforms=["tpu", "cuda"])
    assert exported(images, key).out_avals[0].shape == images.shape
