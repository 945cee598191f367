"""Rows that are kept come back bit by bit, or not at all."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from upsilon_jax.data import cache
from upsilon_jax.data.store import Store, digest_rows

SHAPE = (3, 2, 1)


def digests(numbers):
    return digest_rows(hashlib.sha256(str(n).encode()).digest() for n in numbers)


def pixels(numbers):
    """[n, 3, 2, 1], a function of the numbers alone."""
    return digests(numbers)[:, :6].reshape(-1, *SHAPE)


def read(store, numbers):
    """(rows, the numbers that had to be made)."""
    numbers, made = np.asarray(numbers), []

    def make(positions):
        made.extend(numbers[positions].tolist())
        return pixels(numbers[positions])

    return store.read(digests(numbers), make), sorted(made)


def files(kept):
    return sorted(path for path in kept.rglob("*") if path.is_file())


def test_rows_are_made_once_and_come_back_in_any_order(kept):
    first, made = read(Store("x", SHAPE), range(100))
    assert made == list(range(100))
    np.testing.assert_array_equal(first, pixels(range(100)))
    order = np.random.default_rng(0).permutation(150)
    rows, made = read(Store("x", SHAPE), order)
    assert made == list(range(100, 150))
    np.testing.assert_array_equal(rows, pixels(order))
    store = Store("x", SHAPE)
    rows, made = read(store, [149, 3, 3, 120])
    assert not made
    np.testing.assert_array_equal(rows, pixels([149, 3, 3, 120]))
    rows, found = store.find(digests([7, 999]))
    assert found.tolist() == [True, False]


def test_no_rows_are_no_work(kept):
    rows, made = read(Store("x", SHAPE), np.arange(0))
    assert rows.shape == (0, *SHAPE) and not made and not files(kept)


def test_names_and_shapes_do_not_mix(kept):
    read(Store("x", SHAPE), range(4))
    for other in (Store("y", SHAPE), Store("x", (6,))):
        assert not other.find(digests(range(4)))[1].any()


def test_many_rows_lie_in_several_files(kept, monkeypatch):
    monkeypatch.setattr("upsilon_jax.data.store._ROWS_PER_FILE", 10)
    read(Store("x", SHAPE), range(35))
    assert len(files(kept)) == 4
    rows, made = read(Store("x", SHAPE), range(34, -1, -1))
    assert not made
    np.testing.assert_array_equal(rows, pixels(range(34, -1, -1)))


def test_a_damaged_row_is_made_again_and_repaired(kept):
    read(Store("x", SHAPE), range(20))
    [path] = files(kept)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # in the last row
    path.write_bytes(data)
    for made_before in ([19], list(range(19))):
        rows, made = read(Store("x", SHAPE), range(20))
        assert made == made_before
        np.testing.assert_array_equal(rows, pixels(range(20)))
    assert not read(Store("x", SHAPE), range(20))[1]


@pytest.mark.parametrize("damage", ["cut", "empty", "header", "longer"])
def test_a_damaged_file_is_made_again(kept, damage):
    read(Store("x", SHAPE), range(20))
    [path] = files(kept)
    data = path.read_bytes()
    changed = {
        "cut": data[:-1],
        "empty": b"",
        "header": b"\x00" * 40 + data[40:],
        "longer": data + b"x",
    }[damage]
    path.write_bytes(changed)
    rows, made = read(Store("x", SHAPE), range(20))
    assert made == list(range(20))
    np.testing.assert_array_equal(rows, pixels(range(20)))
    assert not read(Store("x", SHAPE), range(20))[1]


def test_a_file_that_goes_away_is_missed_by_nobody(kept):
    store = Store("x", SHAPE)
    read(store, range(20))
    files(kept)[0].unlink()
    rows, made = read(store, range(20))
    assert made == list(range(20))
    np.testing.assert_array_equal(rows, pixels(range(20)))


def test_several_fill_it_at_the_same_time(kept, monkeypatch):
    """Each has a store of its own, as processes have: they share only the folder."""
    monkeypatch.setattr("upsilon_jax.data.store._ROWS_PER_FILE", 16)

    def fill(numbers):
        for _ in range(5):
            rows, _ = read(Store("x", SHAPE), numbers)
            np.testing.assert_array_equal(rows, pixels(numbers))

    parts = [range(200), range(200), range(100, 300), range(250, -1, -1)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, parts))
    assert not read(Store("x", SHAPE), range(300))[1]


KILLED_WHILE_WRITING = """
import os, pathlib, runpy, signal, sys
def fill(file):
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
write = runpy.run_path(sys.argv[1])["write"]
write(pathlib.Path(sys.argv[2], "x-3x2x1", "name"), fill, 10)
"""


def test_a_killed_writer_leaves_nothing_that_is_read(kept):
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, cache.__file__, str(kept)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    [left] = files(kept)
    assert left.name != "name" and left.read_bytes() == b"half of it"
    rows, _ = read(Store("x", SHAPE), range(5))
    np.testing.assert_array_equal(rows, pixels(range(5)))
    assert not read(Store("x", SHAPE), range(5))[1]


def test_switched_off_it_only_remembers(kept, monkeypatch):
    monkeypatch.setenv(cache.SWITCH, "0")
    store = Store("x", SHAPE)
    read(store, range(5))
    assert not read(store, range(5))[1]
    assert read(Store("x", SHAPE), range(5))[1] and not files(kept)
    cache.save_table("t", np.arange(3))
    assert cache.load_table("t", np.dtype(int)) is None and not files(kept)


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["tempfile.NamedTemporaryFile", "os.replace"])
def test_a_disk_that_is_full_gets_one_note(kept, monkeypatch, caplog, step):
    cache._note.cache_clear()
    monkeypatch.setattr(f"upsilon_jax.data.cache.{step}", full)
    store = Store("x", SHAPE)
    for numbers in (range(5), range(5, 9)):
        np.testing.assert_array_equal(read(store, numbers)[0], pixels(numbers))
    assert not read(store, range(9))[1] and not files(kept)
    [record] = caplog.records
    assert "decoded at every start" in record.message and "No space" in record.message


def test_space_is_left_to_others(kept, monkeypatch):
    monkeypatch.setattr(cache, "MIN_FREE_BYTES", 2**62)
    read(Store("x", SHAPE), range(5))
    assert not files(kept)


def test_no_folder_can_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    store = Store("x", SHAPE)
    assert read(store, range(5))[1] and not read(store, range(5))[1]


def test_what_was_unused_the_longest_goes(kept, monkeypatch):
    for name, time in (("a", 1), ("b", 2), ("c", 3)):
        cache.write(kept / name, lambda file: file.write(bytes(100)), 100)
        os.utime(kept / name, (time, time))
    cache.mark_used(kept / "a")
    monkeypatch.setattr(cache, "MAX_BYTES", 300)
    cache.write(kept / "d", lambda file: file.write(bytes(150)), 150)
    assert [path.name for path in files(kept)] == ["a", "d"]


def test_reading_counts_as_use(kept):
    read(Store("x", SHAPE), range(5))
    [path] = files(kept)
    os.utime(path, (1, 1))
    read(Store("x", SHAPE), range(2))
    assert path.stat().st_mtime > 1


def test_a_table_comes_back_or_is_none(kept):
    table = np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])
    cache.save_table("t", table)
    np.testing.assert_array_equal(cache.load_table("t", table.dtype), table)
    assert cache.load_table("t", np.dtype("<i4")) is None
    assert cache.load_table("u", table.dtype) is None
    [path] = files(kept)
    for data in (b"", path.read_bytes()[:-1], path.read_bytes().replace(b"a", b"b")):
        path.write_bytes(data)
        assert cache.load_table("t", table.dtype) is None
        cache.save_table("t", table)


def test_the_folder_is_the_users(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert str(cache.folder()) == "/some/cache/upsilon_jax/pixels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert str(cache.folder()) == "/home/ada/.cache/upsilon_jax/pixels"
