import numpy as np
import pytest
from PIL import Image

from upsilon_jax.data import photos
from upsilon_jax.data.source import Source, in_memory_reader
from upsilon_jax.data.thumbnails import make_thumbnails


def make_source(train, test, **fields):
    labels = np.zeros(len(train), np.int32), np.zeros(len(test), np.int32)
    shape = train.shape[1:]
    read = in_memory_reader(train, test)
    return Source("x", ("a",), *labels, shape, (0.5,), (1.0,), read, **fields)


def noise(count, shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8)


WANTED = [("test", 1), ("train", 2), ("train", 0)]


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_are_shown_as_they_are_in_training(channels):
    train, test = noise(3, (8, 8, channels)), noise(2, (8, 8, channels), seed=1)
    pictures, made = make_thumbnails(make_source(train, test), WANTED)
    np.testing.assert_array_equal(pictures, [test[1], train[2], train[0]])
    np.testing.assert_array_equal(made, [0, 1, 2])
    pictures, made = make_thumbnails(make_source(train, test), [])
    assert pictures.shape == (0, 8, 8, channels) and made.shape == (0,)


def test_large_arrays_are_made_smaller_and_keep_their_proportions():
    train, test = noise(3, (120, 192, 3)), noise(2, (120, 192, 3))
    pictures, _ = make_thumbnails(make_source(train, test), WANTED)
    assert pictures.shape == (3, 60, 96, 3)
    mean = train[2].reshape(60, 2, 96, 2, 3).mean((1, 3))
    np.testing.assert_allclose(pictures[1], mean, atol=1)


@pytest.mark.parametrize(
    ("file_size", "side"),
    [(400, 96), (50, 50), (8, 16)],  # down to 96, as it is, and never below training
)
def test_photos_are_decoded_again_larger_than_in_training(tmp_path, file_size, side):
    ramp = np.linspace(0, 255, file_size).astype(np.uint8)
    for name in "abcde":  # left dark, right bright; its sides are cut off
        image = np.broadcast_to(ramp[None, :, None], (file_size, file_size, 3))
        Image.fromarray(np.ascontiguousarray(image)).save(tmp_path / f"{name}.jpg")
    paths = [str(tmp_path / f"{name}.jpg") for name in "abcde"]
    source = make_source(
        noise(3, (16, 16, 3)),
        noise(2, (16, 16, 3)),
        fit="crop",
        paths={"train": paths[:3], "test": paths[3:]},
    )
    (tmp_path / "c.jpg").unlink()  # of train 2
    pictures, made = make_thumbnails(source, WANTED)
    assert pictures.shape == (2, side, side, 3) and made.tolist() == [0, 2]
    expected = np.interp(np.linspace(0, 1, side), np.linspace(0, 1, file_size), ramp)
    assert np.abs(pictures.mean((0, 1, 3)) - expected).mean() < 8


def test_a_jpeg_is_decoded_no_larger_than_needed(tmp_path):
    Image.fromarray(noise(1, (800, 1200, 3))[0]).save(tmp_path / "x.jpg")
    assert photos.decode_file(str(tmp_path / "x.jpg"), 3).size == (1200, 800)
    small = photos.decode_file(str(tmp_path / "x.jpg"), 3, at_least=192)
    assert small.size == (300, 200)
