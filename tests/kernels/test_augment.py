"""Whole augmentations, and the views made of them."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import export

from tests.kernels.images import noise, within
from upsilon_jax.kernels.augment import AUGMENTATIONS, normalize, views

SHAPES = ((8, 8, 3), (6, 4, 1))


@functools.cache
def jitted(name, flip=True):
    return jax.jit(lambda images, key: AUGMENTATIONS[name](images, key, flip=flip))


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
        # "weak" moves small images by a pixel at most.
        assert distinct > (24 if name in ("paper", "randaug") else 1)


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
    upright = make(images, key, names=("weak",), flip=False)
    plain = np.asarray(jitted("weak", False)(images, jax.random.fold_in(key, 0)))
    np.testing.assert_allclose(upright[0], (plain - mean) / std, atol=1e-6)
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
