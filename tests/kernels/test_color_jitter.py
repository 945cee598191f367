"""Changes of color against colorsys and loops in double precision."""

import colorsys
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.kernels.images import planar, within
from upsilon_jax.kernels import augment


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
