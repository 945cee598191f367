"""Foreign images from elsewhere."""

import numpy as np
import pytest

from upsilon_jax.config import load_config, validate
from upsilon_jax.data.source import load_source
from upsilon_jax.data.unseen import load_unseen
from upsilon_jax.errors import ConfigError


@pytest.fixture
def digits():
    return load_source("digits")


def test_noise_is_uniform_and_of_the_seed(digits):
    noise = load_unseen("noise", digits, 200, seed=0)
    assert noise.shape == (200, 8, 8, 1) and noise.dtype == np.uint8
    counts = np.bincount(noise.reshape(-1), minlength=256)
    expected = noise.size / 256
    # Pearson's statistic of 255 degrees of freedom: mean 255, deviation 22.6
    assert abs(np.sum((counts - expected) ** 2) / expected - 255) < 4 * 22.6
    np.testing.assert_array_equal(noise, load_unseen("noise", digits, 200, seed=0))
    assert (noise != load_unseen("noise", digits, 200, seed=1)).mean() > 0.9


def test_images_of_another_source_are_brought_to_the_shape_of_the_data(digits):
    photos = digits._replace(name="photos", image_shape=(32, 24, 3))
    found = load_unseen("digits", photos, 50, seed=0)
    assert found.shape == (50, 32, 24, 3) and found.dtype == np.uint8
    assert (found[..., :1] == found).all() and np.ptp(found) > 200  # grey, not empty
    others = load_unseen("digits", photos, 50, seed=1)
    assert (found != others).any()


def test_of_few_images_all_are_taken_once(digits):
    """Those of the test part, which are 597."""
    found = load_unseen("digits", digits, 10_000, seed=0)
    test = digits.read("test", np.arange(597))
    np.testing.assert_array_equal(found, test)


@pytest.mark.parametrize("name", ["digits", "folder", "letters"])
def test_what_is_no_other_source_is_refused(name):
    config = load_config("digits")
    config.data.unseen = "noise"
    validate(config)
    config.data.unseen = name
    with pytest.raises(ConfigError, match=f"data.unseen='{name}': must"):
        validate(config)
