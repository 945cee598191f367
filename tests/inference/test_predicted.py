import numpy as np
import pytest

from upsilon_jax.inference.predicted import columns
from upsilon_jax.kernels.confidence import id_confidence


def test_columns_agree_with_the_confidence_of_the_kernels():
    logits = np.random.default_rng(0).normal(scale=9, size=(400, 7)).astype(np.float32)
    logits[0, 1] += 200  # far beyond where a softmax in float32 is 1
    found, score = columns(logits, 4), id_confidence(logits, 4)
    np.testing.assert_array_equal(found.label, score.label)
    np.testing.assert_allclose(found.id_score, score.value, rtol=1e-5)
    np.testing.assert_allclose(found.log_odds, score.rank, rtol=1e-5, atol=1e-5)
    assert found.log_odds[0] > 150
    assert {column.dtype.name for column in found} == {"int32", "float32"}


def test_probability_is_among_the_id_classes_and_a_cluster_must_beat_them_all():
    found = columns(np.log([[6, 2, 1, 1], [1, 3, 2, 4], [3, 1, 3, 1]]), 2)
    assert found.label.tolist() == [0, 1, 0]
    assert found.probability == pytest.approx([0.75, 0.75, 0.75])
    assert found.id_score == pytest.approx([0.6, 0.3, 0.375])
    assert found.cluster.tolist() == [-1, 1, -1]  # of equals the class wins


def test_logits_that_are_not_finite_say_nothing():
    found = columns(np.array([[np.nan, 0, 0], [np.inf, 0, 0], [1, 0, 0]]), 2)
    assert found.label.tolist() == [-1, -1, 0]
    assert found.cluster.tolist() == [-1, -1, -1]
    assert np.isnan([found.probability, found.id_score, found.log_odds]).all(
        0
    ).tolist() == [True, True, False]


def test_no_rows_no_clusters_and_no_classes():
    assert columns(np.zeros((0, 3)), 3).label.shape == (0,)
    assert columns(np.zeros((2, 3)), 3).cluster.tolist() == [-1, -1]
    with pytest.raises(ValueError, match="num_classes = 4"):
        columns(np.zeros((2, 3)), 4)
