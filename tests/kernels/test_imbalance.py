"""`imbalance` against counts by hand and its bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upsilon_jax.kernels.imbalance import imbalance


def test_by_hand():
    labels = np.repeat([0, 1, 2], [10, 30, 60])
    q = np.array([0.1, 0.3, 0.6])
    kl, ratio = imbalance(labels, 3)
    np.testing.assert_allclose(kl, (q * np.log(3 * q)).sum(), rtol=1e-6)
    np.testing.assert_allclose(ratio, 6, rtol=1e-6)


@pytest.mark.parametrize("num_classes", [1, 3, 10])
def test_uniform_and_one_class(num_classes):
    kl, ratio = imbalance(np.arange(30) % num_classes, num_classes)
    assert (kl, ratio) == (0, 1)
    kl, ratio = imbalance(np.zeros(30, int), num_classes)
    np.testing.assert_allclose(kl, np.log(num_classes), atol=1e-7)
    assert ratio == (1 if num_classes == 1 else np.inf)


def test_ignores_labels_outside_the_classes_and_where():
    labels = np.array([-1, 0, 0, 1, 5, 2, 2, 2])
    where = np.array([1, 1, 1, 1, 1, 1, 0, 0], bool)
    for got in (
        imbalance(labels, 3, where),
        imbalance(labels, 3, where=where),
        imbalance(np.array([0, 0, 1, 2]), 3),
    ):
        np.testing.assert_allclose(
            got, (0.5 * np.log(1.5) + 0.5 * np.log(0.75), 2), 1e-6
        )


def test_no_label_is_nan():
    for labels in (np.full(4, -1), np.zeros(0, int)):
        assert np.isnan(imbalance(labels, 3)).all()
    assert np.isnan(imbalance(np.zeros(4, int), 3, np.zeros(4, bool))).all()


def test_is_non_negative_convex_and_blind_to_the_names():
    rng = np.random.default_rng(0)
    draw = lambda: rng.choice(5, 200, p=rng.dirichlet(np.ones(5)))
    for _ in range(10):
        a, b = draw(), draw()
        kl_a, kl_b = imbalance(a, 5)[0], imbalance(b, 5)[0]
        assert kl_a >= 0
        mixed = imbalance(np.concatenate([a, b]), 5)[0]
        assert mixed <= (kl_a + kl_b) / 2 + 1e-6
        renamed = imbalance(rng.permutation(5)[a], 5)
        np.testing.assert_allclose(renamed, imbalance(a, 5), rtol=1e-5)


def test_rows_sharded_over_devices(rows_over_8_devices):
    labels = np.random.default_rng(1).integers(-1, 6, 800)
    compiled = jax.jit(lambda x: imbalance(x, 6))
    sharded = rows_over_8_devices(labels)
    assert "all-gather" not in compiled.lower(sharded).compile().as_text()
    np.testing.assert_allclose(compiled(sharded), imbalance(labels, 6), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "num_classes", "where"),
    [((2, 3), 3, None), ((4,), 0, None), ((4,), 3, np.ones(3, bool))],
)
def test_bad_arguments(shape, num_classes, where):
    with pytest.raises(ValueError, match="must be"):
        imbalance(jnp.zeros(shape, int), num_classes, where)
