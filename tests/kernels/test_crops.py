"""Random resized crops against Pillow and loops in double precision."""

import itertools

import jax
import numpy as np
import pytest
import scipy.stats
from PIL import Image

from tests.kernels.images import noise, planar
from upsilon_jax.kernels import augment

sample_jit = jax.jit(augment.sample_crops, static_argnums=(1, 2, 3))


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
