"""No room, no right to write, no memory, no clock, no workdir to itself: one line each.

And nothing is lost: with what was missing the same command goes on, and ends as a run
that nobody disturbed.
"""

import ctypes
import os
import pathlib
import resource
import subprocess
import threading
import time

import jax
import jax.numpy as jnp
import pytest
import tqdm

from tests.faults.forked import After, Before, at, at_file_events, run
from tests.faults.injected import Injected
from tests.faults.kinds import left
from tests.workdir.test_pace import SCHEDULE
from upsilon_jax.workdir.lock import locked
from upsilon_jax.workdir.observer import Observer
from upsilon_jax.workdir.pace import Pace, Took

LOOP, WORKDIR = "upsilon_jax.training.loop", "upsilon_jax.workdir"
SAVING = After(f"{WORKDIR}.checkpoint:Checkpoints.save")
STAGES = {  # in the order of time
    "the data are read": After(f"{LOOP}:prepare"),
    "a refresh begins": Before(f"{LOOP}:refresh"),
    "a save is under way": SAVING,
    "the pictures are drawn": Before("upsilon_jax.training.ending:write_all"),
}
MEMORY = {  # when there is too little, of a run with which flags, and for what
    # What is predicted is small; in its place 1 GiB is asked for.
    "a refresh": (Before(f"{LOOP}:refresh", 2), (), 2**30),
    # With 128 unlabeled images for each labeled one XLA needs 250 MiB in one piece.
    "train steps": (
        Before(f"{LOOP}:train_epoch", 2),
        ("--config.data.unlabeled_ratio=128", "--config.train.epochs=2"),
        0,
    ),
}
SPARE = 2**27  # bytes that it may have; enough to load the program
JUMPS = {"back": -1e9, "forth": 1e9}
INJECTED = {
    "test_a_full_disk": Injected(refused=2),
    "test_a_slow_disk": Injected(survived=1),
    "test_a_workdir_that_becomes_read_only": Injected(refused=1),
    "test_too_little_memory": Injected(refused=len(MEMORY)),
    "test_a_clock_that_jumps": Injected(survived=len(JUMPS)),
    "test_a_second_process": Injected(refused=len(STAGES)),
}


def assert_goes_on(whole, workdir, *more):
    args, expected = whole("single", *more)
    ended = run(*args, workdir=workdir)
    assert ended.code == 0, ended.said
    assert left(workdir) == expected


def assert_one_line(ended, told):
    """After lines on progress, none of them a traceback."""
    assert ended.code == 2, ended
    assert "Traceback" not in ended.said and len(ended.said.splitlines()) < 10
    assert told in ended.said.splitlines()[-1], ended.said


@pytest.fixture
def disk(tmp_path):
    """A disk of its own whose size can be changed; skips where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options):
        return subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True
        ).returncode

    if mount("size=64k"):
        pytest.skip("needs the right to mount a disk")
    yield place, lambda size: mount(f"remount,size={size}")
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.slow
def test_a_full_disk(disk, whole, tmp_path):
    """At the start, and in a save; then it is given room."""
    place, resize = disk
    args, _ = whole("single")
    workdir = place / "run"
    (place / "fill").write_bytes(bytes(64 * 1024))
    assert_one_line(run(*args, workdir=workdir, log=tmp_path / "log"), "No space left")
    (place / "fill").unlink()
    resize("1m")  # enough for config and manifest, and not for a checkpoint
    assert_one_line(run(*args, workdir=workdir, log=tmp_path / "log"), "No space left")
    resize("64m")
    assert_goes_on(whole, workdir)


def _slow_disk(workdir, seconds):
    at_file_events(workdir, lambda: time.sleep(seconds))


@pytest.mark.slow
def test_a_slow_disk(whole, tmp_path):
    """Every file waits before it is opened, made, moved or removed."""
    args, expected = whole("single")
    workdir = tmp_path / "run"
    ended = run(*args, workdir=workdir, first=(_slow_disk, str(workdir), 0.03))
    assert ended.code == 0, ended.said
    assert left(workdir) == expected


def _read_only_at(moment, workdir):
    """The folders of a workdir become read-only, for root as well.

    Root may write anywhere by a capability; a thread has those of the one that started
    it, so that it is dropped before there are others.
    """
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, none) == 0
    folders = lambda: [workdir, workdir / "checkpoints"]
    at(moment, lambda: [os.chmod(folder, 0o555) for folder in folders()])


@pytest.mark.slow
def test_a_workdir_that_becomes_read_only(whole, tmp_path):
    args, _ = whole("single")
    workdir = tmp_path / "run"
    moment, start = After(f"{LOOP}:train_epoch", 2), time.monotonic()
    ended = run(*args, workdir=workdir, first=(_read_only_at, moment, workdir))
    assert_one_line(ended, "Permission denied")
    assert time.monotonic() - start < 200  # nobody waits for a folder to be made
    for folder in (workdir, workdir / "checkpoints"):
        folder.chmod(0o755)
    assert_goes_on(whole, workdir)


def _too_little_memory_at(moment, needed):
    """From then on there is a limit; what is computed next needs more."""

    def limit():
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + SPARE
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        jax.block_until_ready(jnp.zeros(needed, jnp.int8))

    at(moment, limit)


@pytest.mark.slow
@pytest.mark.parametrize("stage", MEMORY)
def test_too_little_memory(whole, tmp_path, stage):
    """What was saved before is good."""
    moment, more, needed = MEMORY[stage]
    args, _ = whole("single", *more)
    first = (_too_little_memory_at, moment, needed)
    ended = run(*args, workdir=tmp_path / "run", first=first)
    assert_one_line(ended, "out of memory")
    assert_goes_on(whole, tmp_path / "run", *more)


def jumping(jump, clock=time.time):
    """A clock that jumps at every second look, by more each time."""
    looks = iter(range(10**9))
    return lambda: clock() + jump * (next(looks) // 2)


def _clock_that_jumps_at(moment, jump, checkpoints):
    """Not within a save: orbax tells by the clock whether one has taken too long."""

    def jump_between_saves(clock=time.time):
        while list(checkpoints.glob("*tmp*")):
            time.sleep(0.02)
        time.time = tqdm.std.time = lambda: clock() + jump

    at(moment, jump_between_saves)


@pytest.mark.slow
@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_jumps(whole, tmp_path, jump):
    args, expected = whole("single")
    workdir, moment = tmp_path / "run", After(f"{LOOP}:train_epoch", 2)
    first = (_clock_that_jumps_at, moment, JUMPS[jump], workdir / "checkpoints")
    ended = run(*args, workdir=workdir, first=first)
    assert ended.code == 0, ended.said
    assert left(workdir) == expected


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("terminal", [True, False])
def test_a_clock_that_jumps_does_not_change_the_time_left(
    tmp_path, monkeypatch, capsys, no_tensorboard, jump, terminal
):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    for name in ("time.time", "tqdm.std.time"):
        monkeypatch.setattr(name, jumping(JUMPS[jump]))
    with locked(tmp_path), Observer(tmp_path, Pace(SCHEDULE), 20) as observer:
        observer.pace.expect({False: 2.0})
        time.sleep(0.11)  # a bar is not drawn more often
        observer.steps(21, {"loss": 1.0}, Took(1, 2.0, supervised=False))
        shown = capsys.readouterr().err
    assert "01:18 left" in shown  # 39 steps of 2 seconds
    assert not terminal or "[00:00," in shown  # that it has taken so far


def _wait_at(stages, folder):
    """Stops at each stage, from when it makes a file until that is removed."""
    for stage in stages:
        file = pathlib.Path(folder) / stage

        def wait(file=file):
            file.touch()
            while file.exists():
                time.sleep(0.02)

        at(STAGES[stage], wait)


@pytest.mark.slow
def test_a_second_process(whole, tmp_path):
    """At every stage it is refused in one line, and the first loses nothing."""
    args, expected = whole("single")
    workdir, ended = tmp_path / "run", []
    first = (_wait_at, tuple(STAGES), str(tmp_path))
    thread = threading.Thread(
        target=lambda: ended.append(run(*args, workdir=workdir, first=first))
    )
    thread.start()
    for stage in STAGES:
        while not (tmp_path / stage).exists():
            assert thread.is_alive(), ended
            time.sleep(0.02)
        second = run(*args, workdir=workdir, log=tmp_path / "second.log")
        assert_one_line(second, "is in use by process")
        assert len(second.said.splitlines()) == 1
        (tmp_path / stage).unlink()
    thread.join()
    assert ended[0].code == 0, ended
    assert left(workdir) == expected
