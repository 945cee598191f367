import threading
import time
import tracemalloc

import numpy as np
import pytest

from upsilon_jax.data.samplers import Draws, draw_epoch, in_calls
from upsilon_jax.data.streams import Prefetch, batches, in_order, prefetch_depth
from upsilon_jax.errors import ConfigError

SHAPE = (4, 4, 3)
IMAGES = np.random.default_rng(0).integers(0, 256, (200, *SHAPE), dtype=np.uint8)
LABELED = np.arange(0, 60, 2)
UNLABELED = np.arange(199, 99, -1)
LABEL = (np.arange(30) % 3).astype(np.int32)


def read(split, indices):
    time.sleep(0.001 * (indices[0] % 3) if len(indices) else 0)  # finish out of order
    return {"train": IMAGES, "test": IMAGES[::-1]}[split][indices]


def draws(positions=None, **changes):
    options = {"batch_size": 8, "epoch": 3, "steps_per_epoch": 7, "seed": 5}
    positions = np.arange(100) if positions is None else positions
    return draw_epoch(LABELED, LABEL, UNLABELED, positions, **(options | changes))


def streamed(drawn=None, read=read, steps_per_call=1, **options):
    drawn = draws() if drawn is None else drawn
    options = {"image_shape": SHAPE, "steps_per_call": steps_per_call, **options}
    return batches(read, drawn, **options)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    names = [t.name for t in threading.enumerate() if t.name.startswith("prefetch")]
    assert not names


def assert_same(a: Draws, b: Draws):
    for left, right in zip(a, b, strict=True):
        np.testing.assert_array_equal(left, right)


def test_draws_are_consistent():
    drawn = draws()
    assert drawn.labeled.shape == (7, 8) and drawn.index.shape == (7, 8)
    assert drawn.label.dtype == drawn.index.dtype == np.int32
    np.testing.assert_array_equal(drawn.label, LABEL[drawn.labeled // 2])
    np.testing.assert_array_equal(drawn.unlabeled, UNLABELED[drawn.index])
    index = draws(steps_per_epoch=14).index.ravel()  # 112 of 100
    assert len(np.unique(index)) == 100 and len(np.unique(index[:100])) == 100


def test_streamed_pixels_are_those_of_the_draws():
    expected = in_calls(draws(), 1)
    with streamed(num_threads=3) as calls:
        for (part, count, image, unlabeled), call in zip(calls, expected, strict=True):
            assert_same(part, call[0])
            assert count == call[1] == 1
            np.testing.assert_array_equal(image, IMAGES[part.labeled])
            np.testing.assert_array_equal(unlabeled, IMAGES[part.unlabeled])


def test_several_steps_a_call_have_an_axis_of_their_own():
    drawn, found = draws(), []
    with streamed(steps_per_call=3) as calls:
        for part, count, image, unlabeled in calls:
            assert image.shape == unlabeled.shape == (3, 8, *SHAPE)
            np.testing.assert_array_equal(image, IMAGES[part.labeled])
            found.append((part, count))
    assert [count for _, count in found] == [3, 3, 1]  # of seven steps
    rows = np.concatenate([part.labeled[:count] for part, count in found])
    np.testing.assert_array_equal(rows, drawn.labeled)
    last = found[-1][0]
    np.testing.assert_array_equal(last.labeled[1], last.labeled[0])  # filled up


def test_resuming_inside_an_epoch_gives_the_rest():
    whole = draws()
    for start in range(8):
        assert_same(draws(start=start), Draws(*(part[start:] for part in whole)))
    with pytest.raises(ValueError, match="start=8"):
        draws(start=8)


def test_labeled_permutations_go_on_across_epochs():
    drawn = [draws(epoch=epoch).labeled.ravel() for epoch in range(15)]
    # 15 · 7 · 8 = 840 draws of 30 images.
    assert (np.bincount(np.concatenate(drawn), minlength=60)[::2] == 28).all()


def test_only_the_given_positions_are_drawn():
    values, counts = np.unique(draws(np.array([3, 5, 8])).index, return_counts=True)
    assert values.tolist() == [3, 5, 8] and np.ptp(counts) <= 1


def test_a_supervised_epoch_has_no_unlabeled_rows():
    with streamed(draws(np.empty(0, np.int64))) as calls:
        for part, _, image, unlabeled in calls:
            assert part.unlabeled.shape == part.index.shape == (0,)
            assert image.shape == (8, *SHAPE) and unlabeled.shape == (0, *SHAPE)


def test_shards_read_their_own_rows_only():
    seen = []

    def counting(split, indices):
        seen.append(len(indices))
        return read(split, indices)

    with streamed() as whole:
        parts = [streamed(read=counting, shard=(i, 2)) for i in range(2)]
        for expected, first, second in zip(whole, *parts, strict=True):
            assert_same(first[0], expected[0])
            for number in (2, 3):  # image, unlabeled
                joined = np.concatenate([first[number], second[number]])
                np.testing.assert_array_equal(joined, expected[number])
    for part in parts:
        part.close()
    assert max(seen) == 4
    with pytest.raises(ValueError, match="a batch of 8 cannot be read in 3"):
        streamed(shard=(0, 3))


def test_in_order_pads_the_last_batch():
    indices = np.arange(50, 60)[::-1]
    options = {"batch_size": 4, "image_shape": SHAPE}
    with in_order(read, "train", indices, **options) as chunks:
        got = np.concatenate(list(chunks))
    np.testing.assert_array_equal(got[:10], IMAGES[indices])
    np.testing.assert_array_equal(got[10:], IMAGES[[50, 50]])
    parts = [
        list(in_order(read, "test", indices, shard=(i, 2), **options)) for i in range(2)
    ]
    joined = np.concatenate([np.concatenate(p) for p in zip(*parts, strict=True)])
    np.testing.assert_array_equal(joined[:10], IMAGES[::-1][indices])
    assert list(in_order(read, "train", indices[:0], **options)) == []


def test_closing_early_waits_for_threads_and_stops():
    calls = streamed(num_threads=4)
    next(calls)
    calls.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("prefetch")]
    assert list(calls) == []
    calls.close()  # twice is fine


def test_a_worker_exception_reaches_the_consumer_in_its_turn():
    def broken(split, indices):
        if 0 in indices:  # the first labeled image
            raise OSError("cannot read image 0")
        return read(split, indices)

    expected = int(np.argmax((draws().labeled == 0).any(axis=1)))
    calls = streamed(read=broken)
    for _ in range(expected):
        next(calls)
    with pytest.raises(OSError, match="cannot read image 0"):
        next(calls)
    calls.close()


def test_results_ahead_are_bounded():
    alive, peak = set(), 0
    lock = threading.Lock()

    def make(i):
        nonlocal peak
        with lock:
            alive.add(i)
            peak = max(peak, len(alive))
        return i

    for i in Prefetch(make, range(50), depth=3, num_threads=8):
        time.sleep(0.001)
        with lock:
            alive.discard(i)
    assert peak <= 3


@pytest.mark.parametrize("num_images", [4_000, 16_000])
def test_memory_is_bounded_whatever_the_size_of_the_data(num_images):
    """4,000 images of 12 kB are 12 times the bound, 16,000 are 47 times."""
    shape, bound = (64, 64, 3), 4 * 2**20

    def fresh(split, indices):
        return np.full((len(indices), *shape), 7, np.uint8)

    def passes():
        options = {"prefetch_bytes": bound, "image_shape": shape}
        drawn = draw_epoch(
            np.arange(100),
            np.zeros(100, np.int32),
            *(np.arange(num_images), np.arange(num_images)),
            batch_size=32,
            epoch=0,
            steps_per_epoch=num_images // 32,
            seed=0,
        )
        with batches(fresh, drawn, steps_per_call=1, **options) as calls:
            yield from calls
        everything = np.arange(num_images)
        with in_order(fresh, "train", everything, batch_size=64, **options) as chunks:
            yield from chunks

    tracemalloc.start()
    for _ in passes():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Indices of the epoch are kept too, 28 bytes for each of 2 · num_images rows.
    assert bound / 2 < peak < bound + 100 * num_images


def test_depth_follows_the_memory_asked_for():
    assert prefetch_depth(100, 1000) == 9  # and one in use
    assert prefetch_depth(100, 100) == 1
    with pytest.raises(
        ConfigError, match="data.prefetch_bytes=99: one batch takes 100"
    ):
        prefetch_depth(100, 99)
    with pytest.raises(ValueError, match="depth=0"):
        Prefetch(read, (), depth=0)
