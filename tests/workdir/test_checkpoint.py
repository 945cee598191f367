import errno
import fcntl
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.checkpoint import Checkpoints, restore_part
from upsilon_jax.workdir.lock import locked
from upsilon_jax.workdir.seal import tree_digest


def state(seed):
    values = jax.random.normal(jax.random.key(seed), (64, 32))
    return {"params": values, "step": jnp.full((), seed, jnp.int32), "none": ()}


def save_steps(workdir, steps, keep=5):
    checkpoints = Checkpoints(workdir, keep=keep)
    for step in steps:
        checkpoints.save(step, state(step), {"history": [step]})
    checkpoints.close()


def restore(workdir):
    checkpoints = Checkpoints(workdir, keep=5)
    try:
        return checkpoints.restore(state(0))
    finally:
        checkpoints.close()


def largest_file(folder: pathlib.Path) -> pathlib.Path:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def test_a_saved_state_comes_back_bit_for_bit(tmp_path):
    save_steps(tmp_path, [3, 7])
    checkpoint, complaints = restore(tmp_path)
    assert (checkpoint.number, checkpoint.record) == (7, {"history": [7]})
    assert tree_digest(checkpoint.state) == tree_digest(state(7))
    assert not complaints


def test_nothing_saved_is_no_error(tmp_path):
    assert restore(tmp_path) == (None, [])


def test_only_the_newest_are_kept(tmp_path):
    save_steps(tmp_path, [1, 2, 3, 4], keep=2)
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["3", "4"]


def test_threads_save_at_the_same_time(tmp_path):
    steps = range(1, 21)
    with ThreadPoolExecutor(2) as threads:
        folders = [tmp_path / "one", tmp_path / "other"]
        for saved in [threads.submit(save_steps, folder, steps) for folder in folders]:
            saved.result()
    for folder in folders:
        checkpoint, complaints = restore(folder)
        assert checkpoint.number == 20 and not complaints


def flip_a_bit(folder):
    path = largest_file(folder / "state")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(folder):
    path = largest_file(folder / "state")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(folder):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()


def lose_the_record(folder):
    for path in (folder / "record").iterdir():
        path.unlink()


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, empty, lose_the_record])
def test_a_damaged_step_is_named_set_aside_and_passed_over(tmp_path, damage):
    save_steps(tmp_path, [3, 7])
    damage(tmp_path / "checkpoints" / "7")
    checkpoint, complaints = restore(tmp_path)
    assert checkpoint.number == 3
    assert tree_digest(checkpoint.state) == tree_digest(state(3))
    assert len(complaints) == 1 and "checkpoint 7 cannot be used" in complaints[0]
    assert (tmp_path / "corrupt" / "7").is_dir()
    save_steps(tmp_path, [7])  # the run goes on and writes that step again
    assert restore(tmp_path)[0].number == 7


def parameters(workdir):
    like = jax.eval_shape(lambda: state(0)["params"])
    here = jax.sharding.SingleDeviceSharding(jax.devices()[1])
    return restore_part(workdir, "params", like.update(sharding=here))


def snapshot(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_part_is_read_alone_onto_the_devices_that_are_here(tmp_path):
    save_steps(tmp_path, [3, 7])
    before = snapshot(tmp_path)
    found, complaints = parameters(tmp_path)
    np.testing.assert_array_equal(found, state(7)["params"])
    assert found.devices() == {jax.devices()[1]} and not complaints
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, empty, lose_the_record])
def test_a_part_of_an_older_step_is_read_and_nothing_is_moved(tmp_path, damage):
    save_steps(tmp_path, [3, 7])
    damage(tmp_path / "checkpoints" / "7")
    before = snapshot(tmp_path)
    found, complaints = parameters(tmp_path)
    np.testing.assert_array_equal(found, state(3)["params"])
    assert len(complaints) == 1 and "checkpoint 7 cannot be used" in complaints[0]
    assert snapshot(tmp_path) == before


def test_a_part_of_no_usable_step_is_one_line(tmp_path):
    with pytest.raises(WorkdirError, match="no checkpoint to use: none was saved"):
        parameters(tmp_path)
    assert not list(tmp_path.iterdir())
    save_steps(tmp_path, [3])
    flip_a_bit(tmp_path / "checkpoints" / "3")
    with pytest.raises(WorkdirError, match="checkpoint 3 cannot be used"):
        parameters(tmp_path)


def test_with_no_usable_step_the_run_does_not_start_over(tmp_path):
    save_steps(tmp_path, [3])
    flip_a_bit(tmp_path / "checkpoints" / "3")
    with pytest.raises(WorkdirError, match="no checkpoint can be used"):
        restore(tmp_path)


def test_a_second_process_is_told_who_holds_the_workdir(tmp_path):
    code = (
        "import pathlib\n"
        "from upsilon_jax.errors import WorkdirError\n"
        "from upsilon_jax.workdir.lock import locked\n"
        f"try:\n  with locked(pathlib.Path({str(tmp_path)!r})): print('locked')\n"
        "except WorkdirError as error: print(error)"
    )
    run = lambda: (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )
    with locked(tmp_path):
        assert f"in use by process {os.getpid()}" in run()
    assert run().strip() == "locked"


def test_a_file_system_without_locks_is_one_line(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    told = r"cannot be locked \(No locks available\); give a --workdir on another"
    with pytest.raises(WorkdirError, match=told), locked(tmp_path):
        pass


def test_the_digest_sees_values_shapes_dtypes_and_names():
    array = np.arange(6, dtype=np.float32)
    digests = {
        tree_digest({"a": array}),
        tree_digest({"b": array}),
        tree_digest({"a": array.reshape(2, 3)}),
        tree_digest({"a": array.view(np.int32)}),
        tree_digest({"a": np.nextafter(array, 1)}),
    }
    assert len(digests) == 5
    assert tree_digest({"a": jnp.asarray(array)}) in digests
