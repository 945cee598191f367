import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_digits

from upsilon_jax.data import images, load_source
from upsilon_jax.data.source import channel_statistics, in_memory_reader
from upsilon_jax.errors import ConfigError


def test_digits_are_scikit_learns():
    source = load_source("digits")
    data = load_digits()
    assert source.image_shape == (8, 8, 1)
    assert source.class_names == tuple("0123456789")
    np.testing.assert_array_equal(source.train_labels, data.target[:1200])
    np.testing.assert_array_equal(source.test_labels, data.target[1200:])
    pixels = source.read("test", np.array([596, 0]))
    assert pixels.dtype == np.uint8 and pixels.shape == (2, 8, 8, 1)
    # 16 levels over 255: half a level of rounding.
    np.testing.assert_allclose(
        pixels[..., 0] / 255, data.images[[1796, 1200]] / 16, atol=0.5 / 255
    )
    train = data.images[:1200] / 16
    np.testing.assert_allclose(source.mean, [train.mean()], atol=1e-3)
    np.testing.assert_allclose(source.std, [train.std()], atol=1e-3)
    assert source.nbytes == 1200 * 64


def test_digits_are_resized():
    source = load_source("digits", image_size=16)
    small, large = load_source("digits"), source.read("train", np.arange(5))
    assert large.shape == (5, 16, 16, 1)
    np.testing.assert_array_equal(
        large[:, ::2, ::2], small.read("train", np.arange(5))
    )  # a box filter doubles every pixel


def test_statistics_match_numpy_in_any_order():
    images = np.random.default_rng(0).integers(0, 256, (2500, 4, 4, 3), dtype=np.uint8)
    images[..., 2] = 77
    read = in_memory_reader(images, images[:0])
    mean, std = channel_statistics(read, np.arange(2500))
    np.testing.assert_allclose(mean, (images / 255).mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(std[:2], (images / 255).std((0, 1, 2))[:2], rtol=1e-9)
    assert std[2] == 1.0  # a constant channel is not divided by zero
    assert channel_statistics(read, np.arange(2500)[::-1]) == (mean, std)


def test_statistics_of_large_images_take_little_memory():
    rows = np.random.default_rng(0).integers(0, 256, (1024, 1, 3), dtype=np.uint8)

    def read(split, indices):  # 3 MiB each, so that 40 of them are 120 MiB
        shift = (7 * np.asarray(indices)).astype(np.uint8)
        return np.tile(rows + shift[:, None, None, None], (1, 1, 1024, 1))

    tracemalloc.start()
    mean, std = channel_statistics(read, np.arange(40))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 32 MiB of pixels, as much again in another order, and twice that of squares; the
    # rest is what `read` needs.
    assert most < 6 * 2**25
    columns = read("train", np.arange(40))[:, :, 0].reshape(-1, 3).astype(np.int64)
    mean_of = columns.sum(0) / len(columns)
    square = (columns**2).sum(0) / len(columns)
    assert mean == tuple(mean_of / 255)
    assert std == tuple(np.sqrt(square - mean_of**2) / 255)


@pytest.mark.parametrize("part", [1, 1000, 2**40])
def test_statistics_are_the_same_to_the_bit_however_many_images_are_read_at_once(
    monkeypatch, part
):
    pixels = np.random.default_rng(0).integers(0, 256, (50, 7, 5, 3), dtype=np.uint8)
    read = in_memory_reader(pixels, pixels[:0])
    expected = channel_statistics(read, np.arange(50))
    monkeypatch.setattr(images, "_PART_BYTES", part)
    assert channel_statistics(read, np.arange(50)) == expected


def test_unknown_names_get_the_nearest():
    with pytest.raises(ConfigError, match="data.name='cifr10': did you mean cifar10"):
        load_source("cifr10")
    with pytest.raises(ConfigError, match="there are: digits, cifar10"):
        load_source("??")
    with pytest.raises(ConfigError, match="data.image_size=0"):
        load_source("digits", image_size=0)


def test_data_does_not_load_tensorflow():
    code = (
        "import sys, upsilon_jax.data.streams, upsilon_jax.data.splits\n"
        "from upsilon_jax.data import load_source\n"
        "load_source('digits')\n"
        "print([m for m in ('tensorflow', 'flax') if m in sys.modules])"
    )
    run = [sys.executable, "-c", code]
    out = subprocess.run(run, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
