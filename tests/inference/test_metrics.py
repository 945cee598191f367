import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import confusion_matrix
from sklearn.metrics.cluster import contingency_matrix, normalized_mutual_info_score

from upsilon_jax.inference import metrics
from upsilon_jax.types import PseudoLabels
from upsilon_jax.workdir.schema import Labels


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_accuracy_ignores_the_extra_outputs(rng):
    logits = rng.normal(size=(50, 5))
    label = rng.integers(3, size=50)
    expected = np.mean([row[:3].argmax() == y for row, y in zip(logits, label)])  # noqa: B905
    assert metrics.accuracy(logits, label, 3) == expected
    logits[:, 3:] += 50
    assert metrics.accuracy(logits, label, 3) == expected


def test_confusion_has_a_row_for_every_true_class(rng):
    logits, label = rng.normal(size=(200, 6)), rng.integers(5, size=200)
    predicted = logits[:, :3].argmax(1)
    expected = confusion_matrix(label, predicted, labels=range(5))[:, :3]
    np.testing.assert_array_equal(metrics.confusion(logits, label, 3, 5), expected)
    # a class without a test image has its row all the same
    assert metrics.confusion(logits, label % 2, 3, 5).shape == (5, 3)


def test_pseudo_labels_are_described_by_hand_counts():
    #         right  wrong  foreign  foreign  cluster  unselected
    label = [0, 1, 1, 0, 2, -1]
    hidden = np.array([0, 0, 2, 3, 1, 1])
    weight = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    labels = PseudoLabels(jnp.array(label), jnp.array(weight))
    assert metrics.measure_labels(labels, hidden, 2, 0) == Labels(
        num_selected=5,
        num_confident=4,
        per_class=2,
        num_explored=1,
        ood_share=0.5,
        pseudo_accuracy=0.5,
    )
    unknown = metrics.measure_labels(labels, np.full(6, -1), 2, 0)
    assert unknown.ood_share is None and unknown.num_confident == 4


def test_clusters_are_described_by_hand_counts():
    #        C = 2, K = 3       known  same class twice  other  left out
    labels = PseudoLabels(jnp.array([2, 2, 2, 4, 1]), jnp.array([1.0, 1, 1, 1, 0]))
    hidden = np.array([0, 5, 5, 6, 6])
    found = metrics.measure_labels(labels, hidden, 2, 3)
    assert found.cluster_counts == [3, 0, 1] and found.num_changed is None
    assert found.explored_precision == 0.75 and found.explored_recall == 0.75
    assert found.cluster_purity == 1 and found.cluster_nmi == pytest.approx(1)
    unknown = metrics.measure_labels(labels, np.full(5, -1), 2, 3)
    assert unknown.cluster_counts == [3, 0, 1] and unknown.explored_recall is None
    # an image outside P has no label, whatever its array says
    before = PseudoLabels(jnp.array([2, 3, -1, 4, 0]), jnp.array([1.0, 1, 0, 1, 0]))
    assert metrics.measure_labels(labels, hidden, 2, 3, before).num_changed == 2


def test_without_clusters_or_without_foreign_images_there_is_nothing_to_say():
    labels = PseudoLabels(jnp.array([0, 1]), jnp.ones(2))
    none = metrics.measure_labels(labels, np.array([0, 7]), 2, 0)
    assert none.explored_recall is None and none.cluster_counts is None
    empty = metrics.measure_labels(labels, np.array([0, 1]), 2, 3)
    assert empty.explored_precision is empty.explored_recall is None
    assert empty.cluster_purity is empty.cluster_nmi is None
    assert empty.cluster_counts == [0, 0, 0] and empty.effective_clusters is None


def test_effective_number_of_clusters():
    """Half of the mass in one and a quarter in each of two: exp(1.5 log 2)."""
    label, weight = jnp.array([2, 2, 3, 4, 4]), jnp.array([1.0, 1, 1, 0.5, 0.5])
    found = metrics.measure_labels(PseudoLabels(label, weight), np.full(5, -1), 2, 4)
    assert found.effective_clusters == pytest.approx(2**1.5)
    assert metrics.effective_number(np.ones(7)) == pytest.approx(7)
    assert metrics.effective_number(np.array([0.0, 3, 0])) == 1


@pytest.mark.parametrize("sizes", [(4, 7), (1, 5), (5, 1), (1, 1), (9, 2)])
def test_clusters_are_compared_with_classes_as_scikit_learn_does(rng, sizes):
    cluster, label = (rng.integers(size, size=60) for size in sizes)
    label = np.where(rng.random(60) < 0.5, cluster % sizes[1], label)
    expected = normalized_mutual_info_score(label, cluster)
    found = metrics.normalized_mutual_information(cluster, label)
    assert found == pytest.approx(expected, abs=1e-12)
    table = contingency_matrix(label, cluster)
    expected = table.max(axis=0).sum() / 60
    assert metrics.purity(cluster, label) == pytest.approx(expected, abs=1e-12)


def test_imbalance_is_measured_on_id_and_ood_images_apart():
    # ID images: balanced over 2 classes; OOD images: all on class 0
    logits = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    hidden = np.array([0, 1, 2, 2])
    found = metrics.measure_imbalance(logits, hidden, 2)
    assert found.kl_id == 0 and found.ratio_id == 1
    assert found.kl_ood == pytest.approx(np.log(2), rel=1e-6)
    assert np.isinf(found.ratio_ood)
