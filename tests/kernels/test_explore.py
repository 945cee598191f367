"""`explore` against a float64 oracle, its thresholds, balance and edge cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax

from upsilon_jax import kernels

M, C, K = 300, 4, 5


def explore(*args, **options):
    return jax.tree.map(np.asarray, kernels.explore(*args, **options))


def random_logits(seed, scale=2.0, bias=0.0):
    logits = scale * np.random.default_rng(seed).standard_normal((M, C + K))
    logits[:, C:] += bias
    return logits.astype(np.float32)


def oracle(logits, threshold, num_iters=32, epsilon=0.05, where=True):
    logits = np.asarray(logits, np.float64)
    rows = np.flatnonzero((softmax(logits, 1)[:, :C].max(1) < threshold) & where)
    exponent = log_softmax(logits[rows, C:], axis=1) / epsilon
    f = np.zeros(len(rows))
    for _ in range(num_iters):
        g = -np.log(K) - logsumexp(exponent + f[:, None], axis=0)
        f = -np.log(len(rows)) - logsumexp(exponent + g, axis=1)
    label = np.full(len(logits), -1)
    label[rows] = C + (exponent + g).argmax(1)
    return label


@pytest.mark.parametrize("seed", range(3))
def test_equals_oracle(seed):
    logits = random_logits(seed)
    where = np.random.default_rng(seed).random(M) < 0.8
    label, weight = explore(logits, C, threshold=0.4, where=where)
    expected = oracle(logits, 0.4, where=where)
    assert 50 < (expected >= 0).sum() < 290
    np.testing.assert_array_equal(label, expected)
    np.testing.assert_array_equal(weight, expected >= 0)
    assert label.dtype == np.int32 and weight.dtype == np.float32


def test_newton_solver_equals_many_iterations():
    logits = random_logits(0, 0.5)
    expected = oracle(logits, 0.9, num_iters=3000)
    label = explore(logits, C, threshold=0.9, solver="newton").label
    np.testing.assert_array_equal(label, expected)


def test_a_biased_head_does_not_collapse():
    # A constant on one extra output changes no label once converged.
    logits = random_logits(1, 0.5)
    biased = logits + 3 * (np.arange(C + K) == C + 2).astype("f")
    where = np.arange(M) < 250
    options = {"threshold": 1.0, "solver": "newton", "where": where}
    label = explore(logits, C, **options).label
    np.testing.assert_array_equal(label, explore(biased, C, **options).label)
    count = np.bincount(label[:250] - C, minlength=K)
    assert (np.abs(count - 50) <= 5).all()


def test_permuting_the_extra_outputs_permutes_labels():
    logits, order = random_logits(2), np.array([3, 1, 4, 0, 2])
    label = explore(logits, C, threshold=0.5).label
    other = explore(logits[:, np.r_[:C, C + order]], C, threshold=0.5).label
    moved = np.where(label < 0, -1, C + np.argsort(order)[label - C])
    np.testing.assert_array_equal(other, moved)


def test_works_on_logits_where_probabilities_underflow():
    logits = random_logits(3, 0.1, bias=-200.0)
    logits[:, :C] = 0  # f of an extra output is e^-200 = 0 in float32
    label = explore(logits, C, threshold=0.3).label
    np.testing.assert_array_equal(label, oracle(logits, 0.3))
    assert (np.bincount(label - C, minlength=K) > 0).all()


def test_confidence_equal_to_the_threshold_is_not_below_it():
    logits = np.zeros((6, 4), np.float32)
    assert not explore(logits, 2, threshold=0.25).weight.any()
    assert explore(logits, 2, threshold=0.2501).weight.all()
    assert not explore(logits, 2, threshold=0.0).weight.any()


def test_rows_without_preference_take_turns():
    logits = np.zeros((M, C + K), np.float32)
    for solver in ("sinkhorn", "newton"):
        label = explore(logits, C, threshold=0.3, solver=solver).label
        np.testing.assert_array_equal(label, C + np.arange(M) % K)


def test_one_cluster_takes_all():
    label = explore(random_logits(4)[:, : C + 1], C, threshold=0.5).label
    assert set(np.unique(label)) == {-1, C}


def test_nothing_to_label():
    confident = 20 * np.eye(C + K, dtype="f")[np.arange(M) % C]
    for solver in ("sinkhorn", "newton"):
        label, weight = explore(confident, C, solver=solver)
        np.testing.assert_array_equal(label, -1)
        np.testing.assert_array_equal(weight, 0)
    label, weight = explore(random_logits(5), C + K, threshold=0.9)  # no extra outputs
    np.testing.assert_array_equal(label, -1)
    assert label.dtype == np.int32 and not weight.any()
    assert explore(np.zeros((0, 6), "f"), 4).label.shape == (0,)


def test_fewer_rows_than_clusters():
    where = np.arange(M) < 3
    label = explore(random_logits(6), C, threshold=1.0, where=where).label
    assert (label[3:] == -1).all()
    assert len(set(label[:3])) == 3 and (label[:3] >= C).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_with_non_finite_logits_are_left_out(value):
    logits = random_logits(7)
    broken = np.array([3, 50, 120])
    logits[broken, [0, C, C + K - 1]] = value
    for score, threshold in (("confidence", 0.5), ("margin", 0.5), ("entropy", -1.0)):
        label = explore(logits, C, threshold=threshold, score=score).label
        assert (label[broken] == -1).all() and (label >= C).sum() > 50
    rest = np.ones(M, bool)
    rest[broken] = False
    expected = oracle(np.where(rest[:, None], logits, 0), 0.5, where=rest)
    label = explore(logits, C, threshold=0.5).label
    np.testing.assert_array_equal(label, expected)


@pytest.mark.parametrize(("score", "threshold"), [("entropy", -0.4), ("margin", 0.6)])
def test_other_scores_take_rows_with_an_extra_output_on_top(score, threshold):
    logits = np.zeros((4, 4), np.float32)
    logits[0, 0] = logits[1, 3] = 9.0  # sure of class 0, sure of extra output 3
    logits[2, 1] = 0.1  # unsure
    logits[3, 2] = 0.1
    label = explore(logits, 2, threshold=threshold, score=score).label
    np.testing.assert_array_equal(np.asarray(label) >= 2, [False, True, True, True])


@pytest.mark.parametrize("tau", [0.5, 0.95])
def test_never_labels_what_rebalance_labels(tau):
    logits = random_logits(8, 4)
    above = np.asarray(kernels.rebalance(logits, C, threshold=tau).weight)
    below = explore(logits, C, threshold=tau).weight
    assert below.any() and not (above * below).any()


@pytest.mark.parametrize("solver", ["sinkhorn", "newton"])
def test_rows_sharded_over_devices_are_never_gathered(rows_over_8_devices, solver):
    logits = (2 * np.random.default_rng(9).standard_normal((800, 9))).astype("f")
    select = lambda z: kernels.explore(z, 4, threshold=0.5, solver=solver)
    sharded = rows_over_8_devices(logits)
    compiled = jax.jit(select).lower(sharded).compile()
    assert "all-reduce" in compiled.as_text() and "all-gather" not in compiled.as_text()
    label = np.asarray(compiled(sharded).label)
    # Sums in another order may move a row that lies between two clusters.
    assert (label != np.asarray(select(logits).label)).sum() <= 1


def test_traces_once_however_many_are_selected():
    traces = []
    select = jax.jit(
        lambda z: (traces.append(0), kernels.explore(z, C, threshold=0.3))[1]
    )
    sizes = {int(select(random_logits(0, scale)).weight.sum()) for scale in (0.1, 2, 9)}
    assert len(traces) == 1 and len(sizes) == 3


def test_explore_leaves_undecided_rows_out():
    rng = np.random.default_rng(0)
    logits = np.c_[np.zeros((200, 2)), 3 * rng.standard_normal((200, 4))].astype("f")
    logits[:20, 0] = 30  # of class 0
    label, weight = explore(logits, 2, threshold=0.9, mass=0.4)
    rows = np.arange(200) >= 20
    rows &= softmax(logits, axis=1)[:, :2].max(1) < 0.9
    log_probs = log_softmax(logits[:, 2:], axis=1)
    q = rows.sum() * np.asarray(kernels.sinkhorn(log_probs, where=rows, mass=0.4))
    chosen = q.sum(1) >= 0.5
    assert 30 < chosen.sum() < 100
    np.testing.assert_array_equal(label >= 2, chosen)
    np.testing.assert_array_equal(label[chosen], 2 + q.argmax(1)[chosen])
    np.testing.assert_allclose(weight, q.sum(1) * chosen, rtol=1e-5)


def test_explore_lets_clusters_differ_in_size():
    """Nine tenths of the rows are of one kind."""
    kind = (np.arange(200) % 10 == 9).astype(int)
    noise = 0.1 * np.random.default_rng(0).standard_normal((200, 2))
    logits = np.c_[np.zeros((200, 2)), 2 * np.eye(2)[kind] + noise].astype("f")

    def sizes(**more):
        return np.bincount(explore(logits, 2, threshold=0.9, **more).label)[2:]

    np.testing.assert_array_equal(sizes(relaxation=0.01), [180, 20])
    assert np.ptp(sizes(relaxation=1e6)) < 20


@pytest.mark.parametrize(
    ("shape", "num_classes", "options"),
    [
        ((4, 3), 4, {}),
        ((4,), 1, {}),
        ((4, 3), 2, {"threshold": -0.1}),
        ((4, 3), 2, {"threshold": 1.1}),
        ((4, 3), 2, {"threshold": 0.1, "score": "entropy"}),
        ((4, 3), 2, {"score": "energy"}),
        ((4, 3), 2, {"epsilon": 0.0}),
        ((4, 3), 2, {"num_iters": 0}),
        ((4, 3), 2, {"solver": "simplex"}),
        ((4, 3), 2, {"where": np.ones(3, bool)}),
    ],
)
def test_bad_arguments(shape, num_classes, options):
    with pytest.raises(ValueError, match="must be"):
        explore(jnp.zeros(shape), num_classes, **options)
