import pytest

from upsilon_jax.data.defaults import suggest


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((2400, 20000, 6), (128, 127, 15, 4)),  # K of the paper's CIFAR-10
        ((5000, 20000, 50), (128, 127, 15, 20)),  # and of its CIFAR-100
        ((10, 400, 2), (8, 400, 50, 2)),
        ((1, 1, 1), (1, 400, 50, 2)),
        ((10**6, 10**7, 1000), (128, 20, 2, 20)),
    ],
)
def test_suggestions(sizes, expected):
    assert suggest(*sizes) == expected


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match="0 labeled and 5 unlabeled"):
        suggest(0, 5, 2)
