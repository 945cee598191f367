import numpy as np
import pytest

from upsilon_jax.data import load_source
from upsilon_jax.data.source import UNKNOWN
from upsilon_jax.errors import ConfigError, DataError


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def arrays(**changes):
    content = {
        "x_train": pixels(12, 8, 6, 3),
        "y_train": np.array([3, 5, 9] * 4),
        "x_test": pixels(4, 8, 6, 3, seed=1),
        "y_test": np.array([9, 3, 5, 5], np.uint8),
        "x_unlabeled": pixels(7, 8, 6, 3, seed=2),
    } | changes
    return {name: array for name, array in content.items() if array is not None}


@pytest.fixture
def save(tmp_path):
    def write(**changes):
        content = arrays(**changes)
        np.savez(tmp_path / "data.npz", **content)
        return str(tmp_path / "data.npz"), content

    return write


def test_everything_is_where_it_belongs(save):
    path, content = save()
    source = load_source("npz", path=path)
    assert source.class_names == ("3", "5", "9") and source.image_shape == (8, 6, 3)
    assert source.train_labels.tolist() == [0, 1, 2] * 4 + [UNKNOWN] * 7
    assert source.test_labels.tolist() == [2, 0, 1, 1]
    assert source.has_unlabeled
    np.testing.assert_array_equal(
        source.read("train", np.arange(19)),
        np.concatenate([content["x_train"], content["x_unlabeled"]]),
    )
    np.testing.assert_array_equal(source.read("test", np.arange(4)), content["x_test"])
    scaled = content["x_train"] / 255  # statistics are of labeled images only
    np.testing.assert_allclose(source.mean, scaled.mean((0, 1, 2)), rtol=1e-9)
    np.testing.assert_allclose(source.std, scaled.std((0, 1, 2)), rtol=1e-9)


def test_grey_images_without_a_channel_axis_and_keras_labels(save):
    grey = pixels(12, 8, 8)
    path, _ = save(
        x_train=grey,
        y_train=np.array([[0], [1]] * 6),
        x_test=grey[:2],
        y_test=np.array([[1], [0]]),
        x_unlabeled=None,
        class_names=np.array(["cat", "dog", "eel"]),
    )
    source = load_source("npz", path=path, image_size=4)
    assert source.image_shape == (4, 4, 1) and source.class_names == ("cat", "dog")
    assert not source.has_unlabeled
    # A box filter averages 2×2 blocks; Pillow rounds after each direction.
    np.testing.assert_allclose(
        source.read("train", np.arange(12))[..., 0],
        grey.reshape(12, 4, 2, 4, 2).mean((2, 4)),
        atol=1.0,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "has no y_test"),
        ({"x_train": np.zeros((12, 8, 6, 3))}, "x_train must be uint8 .* got float64"),
        ({"x_train": np.zeros((12, 8), np.uint8)}, r"x_train must be uint8"),
        ({"x_test": np.zeros((4, 8, 8, 3), np.uint8)}, "images of x_test are"),
        (
            {"x_unlabeled": np.zeros((4, 8, 6, 1), np.uint8)},
            "images of x_unlabeled are",
        ),
        ({"y_train": np.zeros(11, int)}, "y_train must be 12 integers"),
        ({"y_train": np.zeros(12)}, "y_train must be 12 integers"),
        ({"y_test": np.array([3, 3, 3, 4])}, "y_test has 4, which y_train has not"),
        (
            {"x_train": np.zeros((0, 8, 6, 3), np.uint8), "y_train": np.zeros(0, int)},
            "x_train is empty",
        ),
        ({"class_names": np.array(["a"])}, "class_names must be text"),
    ],
)
def test_wrong_arrays_are_named(save, changes, message):
    path, _ = save(**changes)
    with pytest.raises(DataError, match=message):
        load_source("npz", path=path)


class Payload:
    def __reduce__(self):
        return (pytest.fail, ("the file was unpickled",))


def test_a_pickle_is_never_loaded(save):
    path, _ = save(y_train=np.array([Payload()], dtype=object))
    with pytest.raises(DataError, match="data.path=.*allow_pickle=False"):
        load_source("npz", path=path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"text"])
def test_a_file_that_is_no_npz(tmp_path, content):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"data.path={path}: "):
        load_source("npz", path=str(path))


def test_a_single_array_is_no_npz(tmp_path):
    np.save(tmp_path / "data.npy", np.zeros(3))
    with pytest.raises(DataError, match="cannot be read as .npz"):
        load_source("npz", path=str(tmp_path / "data.npy"))


def test_no_file():
    with pytest.raises(ConfigError, match="data.path is empty"):
        load_source("npz")
    with pytest.raises(DataError, match="data.path=/no/file.npz: cannot be read"):
        load_source("npz", path="/no/file.npz")
