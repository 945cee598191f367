"""What lies in the cache of compiled code: loaded if it is ours, else never run."""

import logging
import os
import pathlib
import time

import pytest
from absl import logging as absl_logging

from upsilon_jax import native
from upsilon_jax.data import tfds_source
from upsilon_jax.errors import WorkdirError
from upsilon_jax.inference.model import load
from upsilon_jax.native import libraries
from upsilon_jax.runtime import folders, messages

pytestmark = pytest.mark.usefixtures("compiler")

PLANTED = """
#include <cstdio>
__attribute__((constructor)) void run() { std::fclose(std::fopen("%s", "w")); }
"""
OURS = ("answer",)


def plant(cache, tmp_path):
    """A library, in the place and under a name of ours, that leaves a mark if it runs.

    Returns the mark.
    """
    source, mark = libraries.HERE / "small.cc", tmp_path / "mark"
    good, path = source.read_text(), libraries.build("small").path
    source.write_text(PLANTED % mark)
    evil = libraries.build("small").path
    mark.unlink()  # building loads
    source.write_text(good)
    content = evil.read_bytes()
    evil.unlink()
    path.unlink()
    path.write_bytes(content)
    return mark


def test_a_planted_library_is_not_run(cache, tmp_path):
    mark = plant(cache, tmp_path)
    assert libraries.build("small", OURS).library.answer() == 42
    assert not mark.exists()


@pytest.mark.parametrize("bits", [0o777, 0o770, 0o707])
def test_nothing_is_run_from_a_folder_that_others_write_to(
    cache,
    tmp_path,
    monkeypatch,
    caplog,
    bits,
):
    mark = plant(cache, tmp_path)
    (planted,) = cache.iterdir()
    prefix = planted.name.rpartition("-")[0]
    planted.rename(planted.with_name(libraries._library_name(prefix, planted)))
    cache.chmod(bits)
    monkeypatch.setattr(native, "_registered", {})
    assert not native.available("small") and not mark.exists()
    (record,) = [r for r in caplog.records if "left off" in r.message]
    assert "others can write to" in record.message and "\n" not in record.message


def test_a_library_without_our_functions_is_compiled_anew(cache):
    """Right by name and digest, but of something else."""
    path = libraries.build("small").path
    source = libraries.HERE / "small.cc"
    good = source.read_text()
    source.write_text('extern "C" int other() { return 1; }')
    other = libraries.build("small").path
    source.write_text(good)
    prefix = path.name.rpartition("-")[0]
    path.unlink()
    other.rename(path.with_name(libraries._library_name(prefix, other)))
    built = libraries.build("small", OURS)
    assert built.seconds > 0 and built.library.answer() == 42
    assert list(cache.iterdir()) == [built.path]


def test_a_source_without_our_functions_is_one_line(cache):
    (libraries.HERE / "small.cc").write_text('extern "C" int other() { return 1; }')
    with pytest.raises(libraries.NotBuilt, match="small.cc has no function answer"):
        libraries.build("small", OURS)


def test_libraries_that_nobody_uses_are_deleted(cache):
    first = libraries.build("small").path
    old, recent = cache / "rows-a-b.so", cache / "rows-c-d.so"
    days = lambda count: (time.time() - count * 24 * 3600,) * 2
    for path, age in ((old, 31), (recent, 29), (first, 31)):
        path.touch()
        os.utime(path, days(age))
    assert libraries.build("small").path == first  # in use again
    (libraries.HERE / "small.cc").write_text('extern "C" int answer() { return 43; }')
    second = libraries.build("small").path
    assert set(cache.iterdir()) == {first, second, recent}


def test_a_user_without_a_home(cache, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["no such user"])
    monkeypatch.setattr("pwd.getpwnam", lambda _: {}["no such user"])
    with pytest.raises(OSError, match="no home directory"):
        folders.user_cache("native")
    built = libraries.build("small", OURS)
    assert built.path is None and built.library.answer() == 42
    assert tfds_source.default_dir() == pathlib.Path("~/tensorflow_datasets")
    with pytest.raises(WorkdirError, match="there is no such folder or file"):
        load("~/run")


def test_lines_of_ours_have_no_prefix():
    handler = absl_logging.get_absl_handler().python_handler
    before = handler.formatter

    def shown(name):
        values = (name, logging.WARNING, "file.py", 7, "compiling %s", ("it",), None)
        return handler.format(logging.LogRecord(*values))

    try:
        messages.show_plainly()
        assert shown("upsilon_jax.native.libraries") == "compiling it"
        assert shown("orbax").endswith("file.py:7] compiling it")
    finally:
        handler.setFormatter(before)
