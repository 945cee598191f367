"""`pseudo_label` and `rebalance` against a loop-and-sort oracle, and their edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from upsilon_jax.kernels.rebalance import pseudo_label, rebalance


def oracle(logits, num_classes, threshold, where=None):
    """Labels of `pseudo_label` and `rebalance`, row by row in float64."""
    candidates = [[] for _ in range(num_classes)]
    for row, z in enumerate(np.asarray(logits, np.float64)):
        if not np.isfinite(z).all() or (where is not None and not where[row]):
            continue
        y = int(np.argmax(z[:num_classes]))
        rest = logsumexp(np.delete(z, y)) if z.size > 1 else -np.inf
        if 1 / (1 + np.exp(np.minimum(rest - z[y], 700))) > threshold:
            candidates[y].append((rest - z[y], row))
    quota = min(map(len, candidates))
    everything, balanced = np.full((2, len(logits)), -1)
    for y, rows in enumerate(candidates):
        everything[[row for _, row in rows]] = y
        balanced[[row for _, row in sorted(rows)[:quota]]] = y
    return everything, balanced


def counts(labels, num_classes):
    return np.bincount(np.asarray(labels.label) + 1, minlength=num_classes + 1)[1:]


# A few shapes only: every other shape compiles anew. The rest varies freely.
CASES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "shape": st.sampled_from(
            # 40 outputs are summed up in another way than few
            [(60, 3, 5), (24, 1, 1), (24, 2, 2), (60, 4, 4), (60, 3, 40), (60, 40, 40)]
        ),
        "scale": st.sampled_from([0.5, 3.0, 20.0, 200.0]),
        "distinct": st.sampled_from([2, 10, 10_000]),
        "threshold": st.sampled_from([0.0, 0.3, 0.5, 0.95, 1.0]),
        "keep": st.sampled_from([0.0, 0.5, 1.0]),
        "broken": st.booleans(),
        "bias": st.booleans(),
    }
)


def build(case):
    rng = np.random.default_rng(case["seed"])
    rows, num_classes, outputs = case["shape"]
    logits = case["scale"] * rng.standard_normal((rows, outputs))
    logits[:, 0] += case["bias"] * case["scale"]
    logits = logits[rng.integers(0, case["distinct"], rows) % rows]
    if case["broken"]:
        logits[rng.integers(rows, size=5), rng.integers(outputs, size=5)] = np.nan
    return logits.astype(np.float32), num_classes, rng.random(rows) < case["keep"]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(CASES)
def test_equals_oracle(case):
    logits, num_classes, where = build(case)
    everything, balanced = oracle(logits, num_classes, case["threshold"], where)
    options = {"threshold": case["threshold"], "where": where}
    for select, expected in ((pseudo_label, everything), (rebalance, balanced)):
        label, weight = select(logits, num_classes, **options)
        np.testing.assert_array_equal(label, expected)
        np.testing.assert_array_equal(weight, expected >= 0)
    assert label.dtype == jnp.int32 and weight.dtype == jnp.float32


@pytest.mark.parametrize("select", [pseudo_label, rebalance])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_broken_logit_anywhere_in_a_long_row_is_seen(select, broken):
    """XLA:CPU passes over NaN in the maxima of rows as long as these."""
    rows, outputs = 600, 128
    row = np.arange(rows)
    logits = np.zeros((rows, outputs), np.float32)
    logits[row, row % 3] = 20 + row / rows
    sound = row % 5 > 0
    logits[row[~sound], (7 * row[~sound]) % outputs] = broken
    label, weight = select(logits, 3, threshold=0.5)
    assert not weight[~sound].any() and (label[~sound] == -1).all()
    np.testing.assert_array_equal(label[sound], row[sound] % 3)


def confident_logits(rng, per_class, num_outputs, low=3.0, high=12.0):
    """Rows of class y lead by `low` to `high`; per_class[y] of them, shuffled."""
    y = rng.permutation(np.repeat(np.arange(len(per_class)), per_class))
    logits = np.zeros((y.size, num_outputs))
    logits[np.arange(y.size), y] = rng.uniform(low, high, y.size)
    return logits.astype(np.float32), y


def test_equals_the_papers_rule_without_ties():
    rng = np.random.default_rng(0)
    logits = (4 * rng.standard_normal((500, 8))).astype(np.float32)
    f = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))[:, :5]
    n = (f > 0.5).sum(0).min()
    cut = -np.sort(-f, axis=0)[n - 1]
    row, y = np.nonzero(f >= cut)
    expected = np.full(500, -1)
    expected[row] = y
    assert n > 10 and row.size == 5 * n
    np.testing.assert_array_equal(rebalance(logits, 5, threshold=0.5).label, expected)


@pytest.mark.parametrize("score", ["confidence", "entropy", "margin"])
def test_exactly_n_of_every_class_when_the_softmax_saturates(score):
    # A lead of 25 to 4000 gives f = 1 in float32 for all rows: the literal rule would
    # keep all 3000 of class 1.
    logits, y = confident_logits(np.random.default_rng(0), [200, 3000, 250], 5, 25, 4e3)
    threshold = {"confidence": 0.95, "entropy": -0.3, "margin": 0.9}[score]
    label = np.asarray(rebalance(logits, 3, threshold=threshold, score=score).label)
    for k in range(3):
        rows = np.flatnonzero(y == k)
        best = rows[np.argsort(-logits[rows, k], kind="stable")[:200]]
        np.testing.assert_array_equal(np.flatnonzero(label == k), np.sort(best))


def test_duplicates_keep_the_lowest_rows():
    logits = np.tile(np.array([[9, 0, 0], [9, 0, 0], [0, 9, 0]], np.float32), (50, 1))
    label = np.asarray(rebalance(logits, 2).label)
    np.testing.assert_array_equal(np.flatnonzero(label == 1), np.arange(2, 150, 3))
    zero = np.flatnonzero(np.arange(150) % 3 != 2)[:50]
    np.testing.assert_array_equal(np.flatnonzero(label == 0), zero)


def test_balanced_candidates_are_all_kept():
    logits, y = confident_logits(np.random.default_rng(1), [40] * 4, 6)
    np.testing.assert_array_equal(rebalance(logits, 4, threshold=0.6).label, y)
    np.testing.assert_array_equal(pseudo_label(logits, 4, threshold=0.6).label, y)


def test_a_class_without_candidates_selects_nothing():
    logits, _ = confident_logits(np.random.default_rng(2), [40, 0, 40], 6)
    selected = rebalance(logits, 3, threshold=0.5)
    np.testing.assert_array_equal(selected.label, -1)
    np.testing.assert_array_equal(selected.weight, 0)


@pytest.mark.parametrize("threshold", [7, jnp.float32(7), np.full(6, 0.5)])
def test_a_threshold_that_is_known_is_one_number_in_its_range(threshold):
    with pytest.raises(ValueError, match="threshold of score 'confidence' must be"):
        rebalance(np.zeros((6, 3)), 3, threshold=threshold)


def test_an_estimate_that_is_none_selects_nothing():
    assert not rebalance(np.eye(3) * 9, 3, threshold=jnp.float32(np.nan)).weight.any()


def test_a_higher_threshold_selects_no_more():
    logits = (3 * np.random.default_rng(3).standard_normal((400, 5))).astype("f")
    sizes = [counts(rebalance(logits, 3, threshold=t), 3) for t in (0, 0.5, 0.8, 0.99)]
    assert (np.ptp(sizes, axis=1) == 0).all() and (np.diff(sizes, axis=0) <= 0).all()


def test_permuting_rows_permutes_labels():
    rng = np.random.default_rng(4)
    logits = (3 * rng.standard_normal((300, 5))).astype("f")
    order = rng.permutation(300)
    np.testing.assert_array_equal(
        rebalance(logits[order], 3, threshold=0.4).label,
        rebalance(logits, 3, threshold=0.4).label[order],
    )


def test_confidence_equal_to_the_threshold_is_not_above_it():
    half = jnp.array([[1.0, 1, -200], [5, 0, 0]])
    np.testing.assert_array_equal(pseudo_label(half, 2, threshold=0.5).label, [-1, 0])
    quarter = jnp.zeros((3, 4))
    assert not pseudo_label(quarter, 4, threshold=0.25).weight.any()
    assert pseudo_label(quarter, 4, threshold=0.2499).weight.all()


def test_ends_of_the_threshold():
    logits = jnp.array([[300.0, 0, 0], [0, 300, 0], [0, 0, 50]])
    assert not pseudo_label(logits, 2, threshold=1.0).weight.any()
    np.testing.assert_array_equal(
        pseudo_label(logits, 2, threshold=0.0).label, [0, 1, 0]
    )


@pytest.mark.parametrize("score", ["entropy", "margin"])
def test_other_scores_need_an_id_class_on_top(score):
    logits = jnp.array([[9.0, 0, 0], [0, 9, 0], [0, 0, 9], [8, 0, 0.0]])
    threshold = {"entropy": -0.3, "margin": 0.9}[score]
    options = {"threshold": threshold, "score": score}
    np.testing.assert_array_equal(
        pseudo_label(logits, 2, **options).label, [0, 1, -1, 0]
    )
    np.testing.assert_array_equal(rebalance(logits, 2, **options).label, [0, 1, -1, -1])


def test_two_outputs_select_alike_under_mapped_thresholds():
    logits = (4 * np.random.default_rng(5).standard_normal((300, 2))).astype("f")
    expected = rebalance(logits, 2, threshold=0.9).label
    entropy = 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    for score, threshold in (("margin", 0.8), ("entropy", entropy)):
        same = rebalance(logits, 2, threshold=threshold, score=score).label
        np.testing.assert_array_equal(same, expected)


def test_float64_ranks_beyond_float32(x64):
    # Log-odds that differ by 1e-12 are one float32.
    lead = 10 + 1e-12 * np.array([0, 3, 1, 2])
    logits = np.concatenate([np.stack([lead, 0 * lead], 1), [[0.0, 12], [0, 12]]])
    np.testing.assert_array_equal(rebalance(logits, 2).label, [-1, 0, -1, 0, 1, 1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_ranks_in_float32(dtype):
    logits = jnp.asarray([[8, 0, 1], [8, 1, 1], [0, 9, 0], [8, 0, 0]], dtype)
    np.testing.assert_array_equal(
        rebalance(logits, 2, threshold=0.5).label, [-1, -1, 1, 0]
    )


def test_no_rows():
    for select in (pseudo_label, rebalance):
        label, weight = select(jnp.zeros((0, 4)), 3)
        assert label.shape == weight.shape == (0,)


def test_traces_once_however_many_are_selected():
    traces = []
    select = jax.jit(lambda z: (traces.append(0), rebalance(z, 3, threshold=0.5))[1])
    sizes = set()
    for seed, per_class in enumerate([[20, 20, 20], [58, 1, 1], [60, 0, 0]]):
        logits, _ = confident_logits(np.random.default_rng(seed), per_class, 5)
        sizes.add(int(select(logits).weight.sum()))
    assert len(traces) == 1 and sizes == {60, 3, 0}


@pytest.mark.parametrize("score", ["confidence", "entropy", "margin"])
def test_rows_sharded_over_devices_are_never_gathered(rows_over_8_devices, score):
    rng = np.random.default_rng(6)
    logits = (5 * rng.standard_normal((1600, 12))).astype("f")[
        rng.integers(0, 800, 1600)
    ]
    where = rng.random(1600) < 0.8
    threshold = -1.0 if score == "entropy" else 0.5
    select = lambda z, w: rebalance(z, 8, threshold=threshold, score=score, where=w)
    args = rows_over_8_devices((logits, where))
    compiled = jax.jit(select).lower(*args).compile()
    assert "all-reduce" in compiled.as_text() and "all-gather" not in compiled.as_text()
    sharded, whole = compiled(*args), select(logits, where)
    assert counts(whole, 8).min() > 10 and np.ptp(counts(whole, 8)) == 0
    np.testing.assert_array_equal(sharded.label, whole.label)


@pytest.mark.parametrize("select", [pseudo_label, rebalance])
@pytest.mark.parametrize(
    ("shape", "num_classes", "options"),
    [
        ((4, 3), 4, {}),
        ((4, 3), 0, {}),
        ((4,), 1, {}),
        ((2, 4, 3), 2, {}),
        ((4, 3), 2, {"threshold": -0.1}),
        ((4, 3), 2, {"threshold": 1.1}),
        ((4, 3), 2, {"threshold": float("nan")}),
        ((4, 3), 2, {"threshold": 0.1, "score": "entropy"}),
        ((4, 3), 2, {"score": "energy"}),
        ((4, 3), 2, {"where": np.ones(3, bool)}),
    ],
)
def test_bad_arguments(select, shape, num_classes, options):
    with pytest.raises(ValueError, match="must be"):
        select(jnp.zeros(shape), num_classes, **options)
