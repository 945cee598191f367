"""Augmentations against Pillow, colorsys and loops in double precision."""

import colorsys
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import export
from PIL import Image

from upsilon_jax.kernels import augment
from upsilon_jax.kernels.augment import AUGMENTATIONS, normalize, views

sample_jit = jax.jit(augment.sample_crops, static_argnums=(1, 2, 3))
SHAPES = ((8, 8, 3), (6, 4, 1))


def noise(batch, shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (batch, *shape)).astype(np.uint8)


def planar(images):
    return np.moveaxis(np.asarray(images), -1, 1)


@functools.cache
def jitted(name, flip=True):
    return jax.jit(lambda images, key: AUGMENTATIONS[name](images, key, flip=flip))


def within(rate, probability, n):
    """Five standard deviations of the mean of n draws."""
    return abs(rate - probability) < 5 * np.sqrt(probability * (1 - probability) / n)


# Every augmentation.


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_range_dtype_and_randomness(name, shape):
    images = np.repeat(noise(1, shape), 48, 0)
    function = jitted(name)
    first, again, other = (
        np.asarray(function(images, jax.random.key(seed))) for seed in (0, 0, 1)
    )
    assert first.shape == images.shape and first.dtype == np.float32
    assert first.min() >= 0 and first.max() <= 1
    np.testing.assert_array_equal(first, again)
    distinct = len({image.tobytes() for image in first})
    if name == "none":
        np.testing.assert_allclose(first, images / 255.0, rtol=1e-6)
    else:
        assert (first != other).any()
        # "weak" moves small images by a pixel at most; "flip" knows two.
        assert distinct > (24 if name in ("paper", "randaug") else 1)


def test_flip_mirrors_half_or_none():
    n = 2000
    images = noise(n, (4, 4, 3))
    mirrored = images[:, :, ::-1]
    out = np.rint(255 * np.asarray(jitted("flip")(images, jax.random.key(0))))
    is_mirrored = (out == mirrored).all((1, 2, 3))
    assert ((out == images).all((1, 2, 3)) ^ is_mirrored).all()
    assert within(is_mirrored.mean(), 0.5, n)
    never = jitted("flip", flip=False)(images, jax.random.key(0))
    np.testing.assert_allclose(never, images / 255.0, rtol=1e-6)


@pytest.mark.parametrize("flip", [True, False])
def test_weak_is_a_crop_of_the_reflected_image(flip):
    n, size, pad = 1500, 16, 2
    image = noise(1, (size, size, 3))[0]
    border = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    offsets = itertools.product(range(2 * pad + 1), repeat=2)
    crops = [border[i : i + size, j : j + size] for i, j in offsets]
    crops += [crop[:, ::-1] for crop in crops] if flip else []
    names = [crop.tobytes() for crop in crops]
    out = jitted("weak", flip)(np.repeat(image[None], n, 0), jax.random.key(0))
    out = np.rint(255 * np.asarray(out)).astype(np.uint8)
    seen = [names.index(crop.tobytes()) for crop in out]  # raises unless it is one
    counts = np.bincount(seen, minlength=len(crops))
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("flip", [True, False])
def test_paper_mirrors_half_or_none(flip):
    # On a ramp the colors keep the order of columns, and so does the crop.
    ramp = np.linspace(60, 200, 4).astype(np.uint8)[None, None, :, None]
    images = np.broadcast_to(ramp, (48, 6, 4, 1))
    keys = jax.random.split(jax.random.key(0), 20)
    out = np.concatenate([jitted("paper", flip)(images, key) for key in keys])
    falling = out[:, 3, 0, 0] > out[:, 3, -1, 0]
    assert within(falling.mean(), 0.5, 960) if flip else not falling.any()


def test_randaug_keeps_levels_and_cuts_out():
    images = np.full((256, 8, 8, 1), 255, np.uint8)
    out = 255 * np.asarray(jitted("randaug")(images, jax.random.key(0)))
    np.testing.assert_allclose(out, np.rint(out), atol=1e-4)  # float32 near 255
    grey = (np.rint(out) == 127).sum((1, 2, 3))
    assert (grey > 0).all()  # every image has its hole
    untouched = (np.rint(out) == 255).sum((1, 2, 3)) + grey == 64
    assert grey[untouched].max() == 16  # (8 // 2)²


# Random resized crop.


def bilinear(image, rows, columns):
    """[H, W, C] float64 at all pairs of positions, by the four neighbours."""
    out = np.zeros((len(rows), len(columns), image.shape[2]))
    for (i, y), (j, x) in itertools.product(enumerate(rows), enumerate(columns)):
        y0, x0 = int(y), int(x)
        y1, x1 = min(y0 + 1, image.shape[0] - 1), min(x0 + 1, image.shape[1] - 1)
        top = (1 - (x - x0)) * image[y0, x0] + (x - x0) * image[y0, x1]
        bottom = (1 - (x - x0)) * image[y1, x0] + (x - x0) * image[y1, x1]
        out[i, j] = (1 - (y - y0)) * top + (y - y0) * bottom
    return out


def test_resample_is_bilinear():
    rng = np.random.default_rng(0)
    images = noise(3, (7, 9, 3)).astype(np.float32)
    rows, columns = rng.uniform(0, 6, (3, 5)), rng.uniform(0, 8, (3, 11))
    rows[0, :2], columns[0, :2] = (0, 6), (0, 8)  # the corners
    rows, columns = rows.astype(np.float32), columns.astype(np.float32)
    got = jax.jit(augment.resample)(planar(images), rows, columns)
    expected = [bilinear(*a) for a in zip(images, rows, columns, strict=True)]
    # float32: a weight near position 8 is off by 5e-7, times 255.
    np.testing.assert_allclose(got, planar(expected), atol=1e-3)


def test_crop_and_resize_is_pillows():
    height, width = 24, 32
    images = noise(40, (height, width, 3))
    boxes = sample_jit(jax.random.key(0), 40, height, width)
    top, left, crop_height, crop_width = map(np.asarray, boxes)

    @jax.jit
    def crop(images, top, left, crop_height, crop_width):
        rows = augment.crop_positions(top, crop_height, height)
        columns = augment.crop_positions(left, crop_width, width)
        return augment.resample(images, rows, columns)

    got = crop(planar(images).astype(np.float32), *boxes)
    for i in range(40):
        right, bottom = left[i] + crop_width[i], top[i] + crop_height[i]
        picture = Image.fromarray(images[i]).crop((left[i], top[i], right, bottom))
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        expected = planar(np.asarray(picture)[None])[0]
        # Pillow rounds to integers after each of its two passes.
        np.testing.assert_allclose(got[i], expected, atol=1.01)


@pytest.mark.parametrize("size", [7, 28, 32])
def test_crop_of_everything_changes_nothing(size):
    images = planar(noise(2, (size, size, 3))).astype(np.float32)
    zero, full = np.zeros(2, np.int32), np.full(2, size, np.int32)
    positions = augment.crop_positions(zero, full, size)
    np.testing.assert_array_equal(positions[0], np.arange(size))
    np.testing.assert_array_equal(
        augment.resample(images, positions, positions), images
    )


def sample_crop_by_rejection(rng, height, width):
    while True:
        area = height * width * rng.uniform(0.2, 1)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        crop_height, crop_width = (
            round((area / ratio) ** 0.5),
            round((area * ratio) ** 0.5),
        )
        if crop_height <= height and crop_width <= width:
            top = rng.integers(0, height - crop_height + 1)
            left = rng.integers(0, width - crop_width + 1)
            return top, left, crop_height, crop_width


@pytest.mark.parametrize("height, width", [(400, 400), (300, 400)])
def test_crops_are_distributed_as_by_rejection(height, width):
    n = 3000
    boxes = np.stack(sample_jit(jax.random.key(0), n, height, width), 1)
    rng = np.random.default_rng(0)
    oracle = np.array([sample_crop_by_rejection(rng, height, width) for _ in range(n)])

    def facts(boxes):
        top, left, h, w = boxes.T
        return h * w / (height * width), w / h, (top + h / 2), (left + w / 2)

    for ours, theirs in zip(facts(boxes), facts(oracle), strict=True):
        assert scipy.stats.ks_2samp(ours, theirs).pvalue > 1e-4
    area, ratio = facts(boxes)[:2]
    # A side is rounded by at most half a pixel of 150.
    assert 0.198 < area.min() < 0.21 and 0.95 < area.max() <= 1
    assert 0.745 < ratio.min() < 0.76 and 1.32 < ratio.max() < 1.342


@pytest.mark.parametrize("height, width", [(4, 4), (8, 8), (4, 64)])
def test_crops_lie_inside_however_small_or_long(height, width):
    boxes = sample_jit(jax.random.key(1), 500, height, width)
    top, left, h, w = map(np.asarray, boxes)
    assert (h >= 1).all() and (w >= 1).all() and (top >= 0).all() and (left >= 0).all()
    assert (top + h <= height).all() and (left + w <= width).all()
    assert (top == 0).any() and (top + h == height).any()


# Color.


def distort_by_loops(image, change, order):
    """[H, W, C] float64; `order` lists the operations (0..3) as they are applied."""
    rgb = image.shape[-1] == 3
    for k in order:
        luma = image @ [0.299, 0.587, 0.114] if rgb else image.mean(-1)
        if k == 0:
            image = image * (1 + change[0])
        elif k == 1:
            image = luma.mean() + (1 + change[1]) * (image - luma.mean())
        elif k == 2 and rgb:
            image = luma[..., None] + (1 + change[2]) * (image - luma[..., None])
        elif k == 3 and rgb:
            hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in image.reshape(-1, 3)]
            turned = [colorsys.hsv_to_rgb((h + change[3]) % 1, s, v) for h, s, v in hsv]
            image = np.reshape(turned, image.shape)
        image = np.clip(image, 0, 1)
    return image


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_distort_in_every_order(channels):
    orders = list(itertools.permutations(range(4)))
    rng = np.random.default_rng(0)
    images = rng.random((24, 6, 5, channels))
    images[::4] = np.rint(images[::4])  # black, white and pure colors: ties of channels
    images = images.astype(np.float32)
    change = rng.uniform(-1, 1, (24, 4)) * [0.4, 0.4, 0.4, 0.1]
    change[:3] = [[0.4, 0.4, 0.4, 0.1], [-0.4, -0.4, -0.4, -0.1], [0, 0, 0, 0]]
    change = change.astype(np.float32)
    place = np.argsort(orders, axis=1).astype(np.int32)
    got = jax.jit(augment.distort)(planar(images), change, place)
    expected = [
        distort_by_loops(*a)
        for a in zip(images.astype(np.float64), change, orders, strict=True)
    ]
    np.testing.assert_allclose(got, planar(expected), atol=5e-6)  # four float32 steps


def test_hue_turns_primaries():
    primaries = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    third = np.full(3, 1 / 3, np.float32)
    turned = jax.jit(augment.shift_hue)(primaries, third)
    np.testing.assert_allclose(turned, np.roll(primaries, 1, axis=1), atol=1e-6)
    grey = np.full((3, 3, 2, 2), 0.4, np.float32)
    np.testing.assert_array_equal(augment.shift_hue(grey, third), grey)


def test_jitter_draws_follow_the_stated_law(monkeypatch):
    n = 6000
    drawn = []
    monkeypatch.setattr(augment, "distort", lambda x, *draws: drawn.extend(draws) or x)
    augment.color_jitter(jnp.zeros((n, 3, 4, 4)), jax.random.key(0))
    change, place = map(np.asarray, drawn)
    applied = (change != 0).any(1)
    assert within(applied.mean(), 0.8, n)
    for k, width in enumerate((0.4, 0.4, 0.4, 0.1)):
        uniform = scipy.stats.uniform(-width, 2 * width)
        assert scipy.stats.kstest(change[applied, k], uniform.cdf).pvalue > 1e-4
    _, counts = np.unique(place, axis=0, return_counts=True)
    assert len(counts) == 24  # all orders, and nothing else
    np.testing.assert_array_equal(np.sort(place, 1), np.tile(np.arange(4), (n, 1)))
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


# Views.


def test_views_stack_normalised_augmentations():
    images, key = noise(5, (8, 8, 3)), jax.random.key(7)
    mean, std = np.float32([0.5, 0.4, 0.3]), np.float32([0.2, 0.25, 0.3])
    names = ("none", "weak", "weak")
    make = jax.jit(
        functools.partial(views, mean=mean, std=std), static_argnames=("names", "flip")
    )
    got = np.asarray(make(images, key, names=names))
    assert got.shape == (3, 5, 8, 8, 3) and got.dtype == np.float32
    for v, name in enumerate(names):
        plain = np.asarray(jitted(name)(images, jax.random.fold_in(key, v)))
        np.testing.assert_allclose(got[v], (plain - mean) / std, atol=1e-6)
    assert (got[1] != got[2]).any()
    upright = make(images, key, names=("flip",), flip=False)
    np.testing.assert_allclose(upright[0], got[0], atol=1e-6)
    no_views = make(images, key, names=())
    assert no_views.shape == (0, 5, 8, 8, 3) and no_views.dtype == jnp.float32
    no_images = make(images[:0], key, names=tuple(AUGMENTATIONS))
    assert no_images.shape == (len(AUGMENTATIONS), 0, 8, 8, 3)


def test_normalize_whitens():
    images = np.random.default_rng(0).random((50, 4, 4, 2)).astype(np.float32)
    out = normalize(images, images.mean((0, 1, 2)), images.std((0, 1, 2)))
    np.testing.assert_allclose(np.mean(out, (0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(np.std(out, (0, 1, 2)), 1, atol=1e-5)


def test_bad_arguments_are_named():
    images, key = jnp.zeros((2, 8, 8, 3), jnp.uint8), jax.random.key(0)
    half = np.full(3, 0.5)
    with pytest.raises(ValueError, match="stronger"):
        views(images, key, ("weak", "stronger"), mean=half, std=half)
    with pytest.raises(ValueError, match=r"\(2,\)"):
        views(images, key, ("none",), mean=half[:2], std=half)
    for name in AUGMENTATIONS:
        for bad in (images / 255, images[0], images[:, :3]):
            with pytest.raises(ValueError, match="uint8"):
                jax.eval_shape(AUGMENTATIONS[name], bad, key)


# Devices.


def test_rows_on_many_devices_stay_where_they_are(rows_over_8_devices):
    images, key = noise(48, (8, 8, 3)), jax.random.key(3)
    sharded, function = rows_over_8_devices(images), jitted("paper")
    text = function.lower(sharded, key).compile().as_text()
    for collective in ("all-gather", "all-reduce", "all-to-all", "collective-permute"):
        assert collective not in text
    np.testing.assert_allclose(function(sharded, key), function(images, key), atol=1e-6)


@pytest.mark.parametrize("name", ["paper", "randaug"])
def test_lowers_for_tpu_and_cuda(name):
    images = jax.ShapeDtypeStruct((8, 32, 32, 3), jnp.uint8)
    key = jax.eval_shape(lambda: jax.random.key(0))
    exported = export.export(jitted(name), platforms=["tpu", "cuda"])(images, key)
    assert exported.out_avals[0].shape == images.shape
