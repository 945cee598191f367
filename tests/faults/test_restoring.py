"""A sound checkpoint that cannot be read just now is not taken for a damaged one."""

import errno
import os

import jax
import orbax.checkpoint as ocp
import pytest

from tests.workdir.test_checkpoint import parameters, restore, save_steps
from upsilon_jax.errors import WorkdirError


def of_system(code):
    return OSError(code, os.strerror(code))


def in_array(error):
    """As orbax tells of an error while it reads an array."""
    told = Exception("Encountered error while reading array index: (slice(0, 3, 1),)")
    told.__cause__ = error
    return told


def fail(patch, error):
    """Every read of a checkpoint raises this."""

    def refuse(*_, **__):
        raise error

    for reader in (ocp.CheckpointManager, ocp.Checkpointer):
        patch.setattr(reader, "restore", refuse)


FULL = "RESOURCE_EXHAUSTED: Out of memory allocating 134217728 bytes."
REFUSED = "RESOURCE_EXHAUSTED: Error opening: state/d/0 [os_error_code='24']"
ANOTHER = jax.errors.JaxRuntimeError("UNAVAILABLE: another process has ended")
NOT_ITS_FAULT = {
    "no memory": (MemoryError(), MemoryError),
    "no memory for an array": (in_array(MemoryError("128. MiB")), MemoryError),
    "no memory on a device": (RuntimeError(FULL), MemoryError),
    "no threads": (RuntimeError("can't start new thread"), MemoryError),
    "no files": (of_system(errno.EMFILE), WorkdirError),
    "no files for an array": (in_array(ValueError(REFUSED)), WorkdirError),
    "no answer": (of_system(errno.ETIMEDOUT), WorkdirError),
    "no network": (of_system(errno.ENOTCONN), WorkdirError),
    "another process": (ANOTHER, jax.errors.JaxRuntimeError),
    "Ctrl-C": (in_array(KeyboardInterrupt()), KeyboardInterrupt),
}


@pytest.mark.parametrize("read", [restore, parameters])
@pytest.mark.parametrize("reason", NOT_ITS_FAULT)
def test_a_sound_checkpoint_that_cannot_be_read_is_not_passed_over(
    tmp_path, monkeypatch, read, reason
):
    error, expected = NOT_ITS_FAULT[reason]
    save_steps(tmp_path, [3, 7])
    with monkeypatch.context() as patch, pytest.raises(expected) as raised:
        fail(patch, error)
        read(tmp_path)
    assert expected is not WorkdirError or "7: cannot be read (" in str(raised.value)
    assert not (tmp_path / "corrupt").exists()
    checkpoint, complaints = restore(tmp_path)
    assert checkpoint.number == 7 and not complaints


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT, errno.EINVAL])
@pytest.mark.parametrize("read", [restore, parameters])
def test_what_the_system_says_of_damage_is_damage(tmp_path, monkeypatch, read, code):
    save_steps(tmp_path, [3])
    fail(monkeypatch, of_system(code))
    with pytest.raises(WorkdirError, match="checkpoint 3 cannot be used: .*Error: "):
        read(tmp_path)
