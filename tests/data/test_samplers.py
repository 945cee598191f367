import numpy as np
import pytest

from upsilon_jax.data.samplers import (
    draw_epoch,
    labeled_indices,
    permutation,
    permuted,
    unlabeled_indices,
)


def test_a_permutation_is_one_and_is_the_same_on_every_machine():
    order = permutation(1000, seed=0, stream="labeled")
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    assert permutation(8, seed=42, stream="labeled").tolist() == [
        6,
        1,
        7,
        0,
        4,
        3,
        5,
        2,
    ]
    assert permutation(0, seed=0, stream="x").shape == (0,)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1, "stream": "a", "counter": 0},
        {"seed": 0, "stream": "b", "counter": 0},
        {"seed": 0, "stream": "a", "counter": 1},
    ],
)
def test_seed_stream_and_counter_all_change_the_order(other):
    first = permutation(2000, seed=0, stream="a", counter=0)
    second = permutation(2000, **other)
    # Correlation of two random orders has standard deviation 1/√2000 = 0.022.
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


def test_permutations_are_uniform():
    """All 24 orders of four come about equally often."""
    orders = [tuple(permutation(4, seed=s, stream="u")) for s in range(4800)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    # 200 expected each: chi-squared with 23 degrees of freedom, 99.99 % point 56.
    assert len(counts) == 24 and ((counts - 200) ** 2 / 200).sum() < 56


def test_permuted_is_concatenated_permutations_cut_anywhere():
    whole = permuted(7, 0, 70, seed=3, stream="s")
    for block in whole.reshape(10, 7):
        np.testing.assert_array_equal(np.sort(block), np.arange(7))
    assert len({tuple(block) for block in whole.reshape(10, 7)}) > 5
    for start, count in [(0, 7), (3, 11), (6, 1), (14, 0), (13, 57)]:
        np.testing.assert_array_equal(
            permuted(7, start, count, seed=3, stream="s"), whole[start : start + count]
        )


def test_labeled_batches_do_not_depend_on_where_one_starts():
    whole = labeled_indices(10, 4, 0, 5, num_steps=20)
    for step in range(20):
        np.testing.assert_array_equal(labeled_indices(10, 4, step, 5)[0], whole[step])
    assert (np.bincount(whole.reshape(-1)) == 8).all()  # 80 draws of 10: 8 times each


@pytest.mark.parametrize("size", [1, 3, 47, 48, 49, 100])
def test_unlabeled_draws_repeat_only_when_exhausted(size):
    members = np.arange(size) * 3 + 1
    drawn = unlabeled_indices(members, 8, 2, 6, seed=0)
    assert drawn.shape == (6, 8)
    counts = np.bincount(drawn.reshape(-1), minlength=members[-1] + 1)[members]
    assert counts.sum() == 48  # nothing but members
    assert np.ptp(counts) <= 1
    assert (counts >= 1).all() == (size <= 48)


def test_epochs_differ():
    draws = [unlabeled_indices(np.arange(100), 10, e, 10, seed=0) for e in range(3)]
    assert not np.array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(
        draws[2], unlabeled_indices(np.arange(100), 10, 2, 10, seed=0)
    )


def test_an_epoch_has_mu_unlabeled_rows_for_each_labeled_one():
    labeled, unlabeled = np.arange(10), np.arange(100, 148)
    draw = lambda **told: draw_epoch(
        labeled,
        labeled.astype(np.int32) % 2,
        unlabeled,
        np.arange(48),
        batch_size=4,
        epoch=1,
        seed=0,
        **told,
    )
    drawn = draw(steps_per_epoch=4, unlabeled_ratio=3)
    assert drawn.labeled.shape == (4, 4) and drawn.unlabeled.shape == (4, 12)
    assert sorted(drawn.unlabeled.reshape(-1)) == unlabeled.tolist()  # one pass
    # The order of D_u is the same in smaller batches.
    one = draw(steps_per_epoch=12)
    np.testing.assert_array_equal(one.index.reshape(-1), drawn.index.reshape(-1))
    later = draw(steps_per_epoch=4, unlabeled_ratio=3, start=3)
    np.testing.assert_array_equal(later.index, drawn.index[3:])


def test_drawing_from_nothing_is_an_error():
    with pytest.raises(ValueError, match="cannot draw from 0 images"):
        unlabeled_indices(np.empty(0, np.int64), 8, 0, 1, seed=0)
