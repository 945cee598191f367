"""Libraries are compiled once, kept where only the user writes, and checked."""

import logging
import os
import pathlib
import select
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

from upsilon_jax.native import libraries

pytestmark = pytest.mark.usefixtures("compiler")


def only(folder) -> pathlib.Path:
    (path,) = folder.iterdir()
    return path


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_library_is_compiled_once_and_kept_for_the_user_alone(cache):
    first, second = libraries.build("small"), libraries.build("small")
    assert first.library.answer() == second.library.answer() == 42
    assert first.seconds > 0 and second.seconds == 0
    assert first.path == second.path == only(cache)
    assert mode(cache) == 0o700 and mode(first.path) == 0o600


def test_one_notice_while_compiling(cache, caplog):
    libraries.build("small")
    (libraries.HERE / "small.cc").write_text('extern "C" void other() {}')
    libraries.build("small")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "UPSILON_NATIVE=0" in caplog.text


def test_the_cache_of_jax_is_not_loaded_from(cache, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "shared"))
    try:
        assert libraries.build("small").path.parent == cache
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("option", ["-O1", "-mno-avx"])
def test_other_options_are_another_library(cache, monkeypatch, option):
    first = libraries.build("small").path
    monkeypatch.setattr(libraries, "OPTIONS", (*libraries.OPTIONS, option))
    assert libraries.build("small").path != first


def replace(path, content):
    """By another file: this process has the first one loaded."""
    path.unlink()
    path.write_bytes(content)


def cut_short(path):
    replace(path, path.read_bytes()[: path.stat().st_size // 2])


def one_byte_changed(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    replace(path, content)


def whole_but_no_library(path):
    replace(path, b"not a library")
    prefix = path.name.rpartition("-")[0]
    path.rename(path.with_name(libraries._library_name(prefix, path)))


@pytest.mark.parametrize("harm", [cut_short, one_byte_changed, whole_but_no_library])
def test_a_damaged_library_is_compiled_anew(cache, harm):
    sound = libraries.build("small").path.read_bytes()
    harm(only(cache))
    again = libraries.build("small")
    assert again.seconds > 0 and again.library.answer() == 42
    assert only(cache) == again.path and again.path.read_bytes() == sound


def test_one_that_does_not_load_is_compiled_only_once(cache, fake_compiler, tmp_path):
    """The macros go to a device, the library to a file."""
    count = tmp_path / "count"
    fake_compiler(
        "for last; do :; done; echo no library > $last; "
        f"[ -c $last ] || echo compiled >> {count}"
    )
    for times in (1, 2):
        with pytest.raises(libraries.NotBuilt, match="file too short|invalid"):
            libraries.build("small")
        assert count.read_text() == "compiled\n" * times


def test_a_folder_of_another_user_is_refused(cache, monkeypatch):
    libraries.build("small")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(libraries.NotBuilt, match="belongs to another user"):
        libraries.build("small")


def test_a_link_to_a_folder_of_another_user_is_refused(cache, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    cache.parent.mkdir(parents=True)
    cache.symlink_to(elsewhere)
    assert (
        libraries.build("small").path.parent == cache
    )  # as long as both are the user's
    original = pathlib.Path.stat

    def foreign(self, *, follow_symlinks=True):
        status = original(self, follow_symlinks=follow_symlinks)
        if self != cache or not follow_symlinks:
            return status
        return os.stat_result((*status[:4], os.geteuid() + 1, *status[5:]))

    monkeypatch.setattr(pathlib.Path, "stat", foreign)
    with pytest.raises(libraries.NotBuilt, match="belongs to another user"):
        libraries.build("small")


@pytest.mark.parametrize("bits", [0o770, 0o702])
def test_what_others_can_write_to_is_refused(cache, bits):
    path = libraries.build("small").path
    cache.chmod(bits)
    with pytest.raises(libraries.NotBuilt, match="others can write"):
        libraries.build("small")
    cache.chmod(0o700)
    path.chmod(bits)
    with pytest.raises(libraries.NotBuilt, match="others can write"):
        libraries.build("small")


def test_where_nothing_can_be_kept_it_is_compiled_every_time(cache):
    cache.parents[1].write_text("a file where a folder should be")
    for _ in range(2):
        built = libraries.build("small")
        assert built.path is None and built.seconds > 0
        assert built.library.answer() == 42


def test_a_full_disk_does_no_harm(cache, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(libraries.shutil, "copyfile", full)
    built = libraries.build("small")
    assert built.path is None and built.library.answer() == 42
    assert not list(cache.iterdir())


def test_several_may_compile_at_once(cache):
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(libraries.build, ["small"] * 4))
    assert all(one.library.answer() == 42 for one in built)
    assert {path.suffix for path in cache.iterdir()} == {".so"}
    assert libraries.build("small").seconds == 0


def test_no_compiler(cache, monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(libraries.NotBuilt, match="install"):
        libraries.build("small")


def test_of_many_complaints_the_first_error_is_the_line(cache):
    (libraries.HERE / "small.cc").write_text(
        "int first = second;\nint third = fourth;\n"
    )
    with pytest.raises(libraries.NotBuilt) as caught:
        libraries.build("small")
    assert "second" in caught.value.line and "fourth" not in caught.value.line
    assert "fourth" in str(caught.value) and "\n" not in caught.value.line


def test_a_compiler_that_hangs_is_ended_with_all_it_started(
    cache, fake_compiler, monkeypatch, tmp_path
):
    """The grandchild holds the pipe open as long as it lives."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    fake_compiler(f"(echo started; exec sleep 60) > {tmp_path}/pipe & wait")

    def hang(process, timeout):
        assert timeout == libraries.TIME_LIMIT
        select.select([reader], [], [], 30)
        assert os.read(reader, 100) == b"started\n"
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", hang)
    with pytest.raises(libraries.NotBuilt, match="longer than 120 s"):
        libraries.build("small")
    ready, *_ = select.select([reader], [], [], 30)
    assert ready and os.read(reader, 100) == b""
    os.close(reader)
