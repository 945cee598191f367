import threading
import time
import tracemalloc

import numpy as np
import pytest

from upsilon_jax.data.streams import (
    HostBatch,
    Pipeline,
    Prefetch,
    in_order,
    prefetch_depth,
)

SHAPE = (4, 4, 3)
IMAGES = np.random.default_rng(0).integers(0, 256, (200, *SHAPE), dtype=np.uint8)
LABELED = np.arange(0, 60, 2)
UNLABELED = np.arange(199, 99, -1)
LABEL = (np.arange(30) % 3).astype(np.int32)


def read(split, indices):
    time.sleep(0.001 * (indices[0] % 3) if len(indices) else 0)  # finish out of order
    return {"train": IMAGES, "test": IMAGES[::-1]}[split][indices]


def pipeline(**changes):
    options = {
        "batch_size": 8,
        "unlabeled_batch_size": 16,
        "epoch": 3,
        "steps_per_epoch": 7,
        "seed": 5,
    }
    return Pipeline(LABELED, LABEL, UNLABELED, **(options | changes))


def streamed(**changes):
    return pipeline(**({"read": read, "image_shape": SHAPE} | changes))


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    names = [t.name for t in threading.enumerate() if t.name.startswith("prefetch")]
    assert not names


def assert_same(a: HostBatch, b: HostBatch):
    for left, right in zip(a[:4], b[:4], strict=True):
        np.testing.assert_array_equal(left, right)


def test_batches_are_consistent():
    batches = list(pipeline())
    assert len(batches) == len(pipeline()) == 7
    for batch in batches:
        assert batch.labeled.shape == (8,) and batch.index.shape == (16,)
        assert batch.label.dtype == batch.index.dtype == np.int32
        np.testing.assert_array_equal(batch.label, LABEL[batch.labeled // 2])
        np.testing.assert_array_equal(batch.unlabeled, UNLABELED[batch.index])
        assert batch.image is None
    drawn = np.concatenate([batch.index for batch in batches])  # 112 of 100
    assert len(np.unique(drawn)) == 100 and len(np.unique(drawn[:100])) == 100


def test_streamed_has_the_same_indices_and_the_right_pixels():
    with streamed(num_threads=3) as batches:
        for ours, resident in zip(batches, pipeline(), strict=True):
            assert_same(ours, resident)
            np.testing.assert_array_equal(ours.image, IMAGES[ours.labeled])
            np.testing.assert_array_equal(ours.unlabeled_image, IMAGES[ours.unlabeled])


def test_resuming_inside_an_epoch_gives_the_rest():
    whole = list(pipeline())
    for start in range(8):
        rest = list(pipeline(start=start))
        assert len(rest) == 7 - start
        for ours, expected in zip(rest, whole[start:], strict=True):
            assert_same(ours, expected)
    with pytest.raises(ValueError, match="start=8"):
        pipeline(start=8)


def test_labeled_permutations_go_on_across_epochs():
    drawn = [b.labeled for epoch in range(15) for b in pipeline(epoch=epoch)]
    # 15 · 7 · 8 = 840 draws of 30 images.
    assert (np.bincount(np.concatenate(drawn), minlength=60)[::2] == 28).all()


def test_a_population_is_all_that_is_drawn():
    population = np.array([3, 5, 8])
    drawn = np.concatenate([b.index for b in pipeline(population=population)])
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [3, 5, 8] and np.ptp(counts) <= 1
    with pytest.raises(ValueError, match="0 images"):
        pipeline(population=np.empty(0, np.int64))


def test_a_supervised_epoch_has_no_unlabeled_rows():
    with streamed(unlabeled_batch_size=0) as batches:
        for batch in batches:
            assert batch.unlabeled.shape == batch.index.shape == (0,)
            assert batch.image.shape == (8, *SHAPE)
            assert batch.unlabeled_image.shape == (0, *SHAPE)


def test_shards_read_their_own_rows_only():
    seen = []

    def counting(split, indices):
        seen.append(len(indices))
        return read(split, indices)

    with streamed() as whole:
        parts = [streamed(read=counting, shard=(i, 2)) for i in range(2)]
        for expected, first, second in zip(whole, *parts, strict=True):
            assert_same(first, expected)
            for name in ("image", "unlabeled_image"):
                halves = getattr(first, name), getattr(second, name)
                joined = np.concatenate(halves)
                np.testing.assert_array_equal(joined, getattr(expected, name))
    for part in parts:
        part.close()
    assert max(seen) == 8
    with pytest.raises(ValueError, match="a batch of 8 cannot be read in 3"):
        streamed(shard=(0, 3))


def test_in_order_pads_the_last_batch():
    indices = np.arange(50, 60)[::-1]
    options = {"batch_size": 4, "image_shape": SHAPE}
    with in_order(read, "train", indices, **options) as batches:
        got = np.concatenate(list(batches))
    np.testing.assert_array_equal(got[:10], IMAGES[indices])
    np.testing.assert_array_equal(got[10:], IMAGES[[50, 50]])
    parts = [
        list(in_order(read, "test", indices, shard=(i, 2), **options)) for i in range(2)
    ]
    joined = np.concatenate([np.concatenate(p) for p in zip(*parts, strict=True)])
    np.testing.assert_array_equal(joined[:10], IMAGES[::-1][indices])
    assert list(in_order(read, "train", indices[:0], **options)) == []


def test_closing_early_waits_for_threads_and_stops():
    batches = streamed(num_threads=4)
    next(batches)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("prefetch")]
    assert list(batches) == []
    batches.close()  # twice is fine


def test_a_worker_exception_reaches_the_consumer_in_its_turn():
    def broken(split, indices):
        if 0 in indices:  # the first labeled image
            raise OSError("cannot read image 0")
        return read(split, indices)

    expected = 0
    for batch in pipeline():
        if 0 in batch.labeled:
            break
        expected += 1
    batches = streamed(read=broken)
    for _ in range(expected):
        next(batches)
    with pytest.raises(OSError, match="cannot read image 0"):
        next(batches)
    batches.close()


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
        options = {"prefetch_bytes": bound, "image_shape": shape, "read": fresh}
        with Pipeline(
            np.arange(100),
            np.zeros(100, np.int32),
            np.arange(num_images),
            batch_size=32,
            unlabeled_batch_size=32,
            epoch=0,
            steps_per_epoch=num_images // 32,
            seed=0,
            **options,
        ) as batches:
            yield from batches
        with in_order(
            split="train", indices=np.arange(num_images), batch_size=64, **options
        ) as batches:
            yield from batches

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
    with pytest.raises(ValueError, match="data.prefetch_bytes=99: one batch takes 100"):
        prefetch_depth(100, 99)
    with pytest.raises(ValueError, match="depth=0"):
        Prefetch(read, (), depth=0)
