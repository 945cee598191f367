import pytest

from upsilon_jax.config.suggestions import suggest
from upsilon_jax.errors import ConfigError


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((2400, 20000, 6), (128, 127, 15, 4, 0.31)),  # the paper's CIFAR-10: K 4, γ 0.3
        ((10000, 40000, 100), (128, 64, 8, 20, 0.15)),  # Tiny ImageNet: K 20, γ 0.15
        ((10, 400, 2), (8, 400, 50, 2, 0.64)),
        ((1, 1, 1), (1, 400, 133, 2, 0.64)),
        ((10**6, 10**7, 1000), (128, 20, 2, 20, 0.14)),
    ],
)
def test_suggestions(sizes, expected):
    assert suggest(*sizes) == expected


def test_what_is_given_is_kept_and_the_rest_follows():
    half = suggest(2400, 20000, 6, batch_size=64)
    assert (half.batch_size, half.epochs) == (64, 64)  # half as many steps an epoch
    many = suggest(2400, 20000, 6, batch_size=64, unlabeled_ratio=2)
    assert many.epochs == 127  # as many steps as with 128 unlabeled rows
    short = suggest(2400, 20000, 6, epochs=3)
    assert (short.batch_size, short.epochs, short.pretrain_epochs) == (128, 3, 1)
    assert suggest(2400, 20000, 6, epochs=1).pretrain_epochs == 0  # the method runs


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        (400, 50),  # an eighth: 750 steps
        (200, 25),  # 375 steps
        (100, 20),  # 300 steps
        (60, 20),
        (40, 13),  # a third
        (4, 1),
        (2, 1),
    ],
)
def test_short_runs_pretrain_longer(epochs, expected):
    """480 images in batches of 32: 15 steps an epoch."""
    assert suggest(60, 480, 6, epochs=epochs).pretrain_epochs == expected


def test_nothing_to_learn_from():
    with pytest.raises(ConfigError, match="0 labeled and 5 unlabeled"):
        suggest(0, 5, 2)
