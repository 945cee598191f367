import numpy as np
import pytest

from upsilon_jax.data import composite, source
from upsilon_jax.data.source import Source, in_memory_reader


def fake(name, num_classes, n, value):
    images = np.full((n, 4, 4, 3), value, np.uint8)
    images[:, 0, 0, 0] = np.arange(n)
    return Source(
        name=name,
        class_names=tuple(f"{i}" for i in range(num_classes)),
        train_labels=(np.arange(n) % num_classes).astype(np.int32),
        test_labels=(np.arange(n // 2) % num_classes).astype(np.int32),
        image_shape=(4, 4, 3),
        mean=(value / 255,) * 3,
        std=(0.5,) * 3,
        read=in_memory_reader(images, images[: n // 2]),
        contents={
            "train": np.full((n, 32), value, np.uint8),
            "test": np.full((n // 2, 32), value, np.uint8),
        },
    )


@pytest.fixture
def two(monkeypatch):
    parts = {"cifar10": fake("cifar10", 3, 10, 50), "svhn": fake("svhn", 2, 6, 90)}
    monkeypatch.setattr(composite, "load_source", lambda name, **_: parts[name])
    return parts


def test_the_second_follows_the_first(two):
    both = source.load_source("cifar10_svhn")
    assert both.name == "cifar10_svhn" and both.mean == two["cifar10"].mean
    assert both.class_names == (
        "cifar10/0",
        "cifar10/1",
        "cifar10/2",
        "svhn/0",
        "svhn/1",
    )
    assert both.train_labels[10:].tolist() == [3, 4] * 3
    assert both.contents["train"][:, 0].tolist() == [50] * 10 + [90] * 6
    assert both.contents["test"].shape == (8, 32)
    assert both.test_labels.tolist() == [0, 1, 2, 0, 1, 3, 4, 3]
    pixels = both.read("train", np.array([12, 9, 0, 15]))
    assert pixels[:, 1, 1, 1].tolist() == [90, 50, 50, 90]
    assert pixels[:, 0, 0, 0].tolist() == [2, 9, 0, 5]
    assert both.read("test", np.array([5]))[0, 1, 1, 0] == 90
    assert both.read("train", np.empty(0, int)).shape == (0, 4, 4, 3)


def test_shapes_must_agree(two):
    two["svhn"] = two["svhn"]._replace(image_shape=(8, 8, 3))
    with pytest.raises(ValueError, match="images of cifar10 are"):
        source.load_source("cifar10_svhn")
