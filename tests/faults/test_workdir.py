"""A workdir that cannot be used is one line; whose run it holds is never guessed."""

import contextlib
import functools
import os
import resource
import signal
import sys
import types
import warnings

import pytest

import upsilon_jax
from tests.faults import processes
from tests.training.tiny_run import baseline
from tests.workdir.test_schema import make_result
from upsilon_jax import command as main
from upsilon_jax import commandline
from upsilon_jax.errors import WorkdirError
from upsilon_jax.runtime import messages
from upsilon_jax.sweep import __main__ as sweep
from upsilon_jax.workdir.files import CONFIG, RESULT, find_result, write_json
from upsilon_jax.workdir.lock import locked
from upsilon_jax.workdir.sums import forget_sums
from upsilon_jax.workdir.whole import written_whole

CONFIG_OF_RUN = baseline().to_dict()


def said(capsys, *argv, command=main):
    """The one line that a refused command says."""
    assert commandline.call(command.COMMAND, command.main, argv) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert not captured.out
    return line


def a_file(folder):
    path = folder / "file"
    path.write_text("kept")
    return path, "File exists"


def below_a_file(folder):
    return a_file(folder)[0] / "run", "Not a directory"


def too_long(folder):
    return folder / ("x" * 300), "File name too long"


def lock_is_a_folder(folder):
    (folder / "run" / ".lock").mkdir(parents=True)
    return folder / "run", "Is a directory"


@pytest.mark.parametrize("make", [a_file, below_a_file, too_long, lock_is_a_folder])
def test_a_workdir_that_cannot_be_one_is_one_line(tmp_path, capsys, make):
    workdir, why = make(tmp_path)
    line = said(capsys, f"--workdir={workdir}")
    assert f"cannot be a workdir ({why})" in line and len(line) < 400


@contextlib.contextmanager
def full_disk():
    """No byte can be written to a file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def test_a_workdir_where_nothing_may_be_written_is_one_line(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "open", refuse)  # root may write anywhere
    with pytest.raises(WorkdirError, match=r"cannot be a workdir \(Permission denied"):
        with locked(tmp_path):
            pass


@pytest.mark.parametrize("url", ["gs://bucket/run", "s3://bucket/run", "hdfs:///run"])
def test_a_bucket_is_refused_and_no_local_folder_is_made(
    tmp_path, capsys, monkeypatch, url
):
    monkeypatch.chdir(tmp_path)
    for arguments in ([], ["--mode=report"]):
        assert "must be a folder of this machine" in said(
            capsys, f"--workdir={url}", *arguments
        )
    assert "must be a folder" in said(capsys, f"--workdir={url}", command=sweep)
    for use in (functools.partial(upsilon_jax.train, baseline()), upsilon_jax.load):
        with pytest.raises(WorkdirError, match="must be a folder of this machine"):
            use(url)
    assert not list(tmp_path.iterdir())


def test_a_lock_that_is_a_link_does_not_destroy_what_it_leads_to(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(precious)
    with pytest.raises(WorkdirError, match="is a link to another file"):
        with locked(tmp_path / "run"):
            pass
    assert precious.read_text() == "kept"


def test_a_link_where_a_file_begins_is_not_written_through(tmp_path):
    precious, path = tmp_path / "precious", tmp_path / RESULT
    precious.write_text("kept")
    for link in (os.symlink, os.link):
        link(precious, tmp_path / f"{RESULT}.partial")
        with written_whole(path) as partial:
            partial.write_text("new")
        assert precious.read_text() == "kept"
        assert path.read_text() == "new" and not path.is_symlink()


DEEP = "[" * 100_000 + "]" * 100_000
# Python itself reads these, from 3.12 on at any depth; functions do not get so far.
LESS_DEEP = [
    f'{{"train": {{}}, "data": {{"x": {begin * 500}1{end * 500}}}}}'
    for begin, end in (("[", "]"), ('{"x":', "}"))
]
BAD = ["null", "{}", "[]", "3", '"x"', "{", "", '{"data": 1, "train": {}}', DEEP]


@pytest.mark.parametrize(
    "text", [*BAD, *LESS_DEEP], ids=lambda text: f"{text[:12]} {len(text)}"
)
def test_a_config_file_that_is_none_is_a_line_with_its_name(tmp_path, text):
    (tmp_path / CONFIG).write_text(text)
    write_json(tmp_path / RESULT, make_result(config=CONFIG_OF_RUN))
    for override in (False, True):
        with pytest.raises(WorkdirError) as error:
            find_result(tmp_path, CONFIG_OF_RUN, override=override)
        assert str(error.value).startswith(f"{tmp_path / CONFIG}: is no ")
        assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_without_a_config_file_no_other_run_is_taken_for_this_one(tmp_path):
    find = lambda config: find_result(tmp_path, config, override=False)
    other = baseline(seed=7).to_dict()
    assert find(CONFIG_OF_RUN) is None  # a new folder
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    with pytest.raises(WorkdirError, match=r"config.json: is missing, but there are"):
        find(CONFIG_OF_RUN)
    write_json(tmp_path / RESULT, make_result(config=other))
    with pytest.raises(WorkdirError, match="another config .seed: 7 → 0"):
        find(CONFIG_OF_RUN)
    assert find(other).config["seed"] == 7


def test_a_disk_that_becomes_read_only_is_the_line_of_what_was_written(
    tmp_path, monkeypatch
):
    def refuse(*_, **__):
        raise OSError(30, os.strerror(30))

    for name in ("replace", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(
        WorkdirError, match=r"result.json: cannot be written \(Read-only"
    ):
        with written_whole(tmp_path / "result.json"):
            pass
    with pytest.raises(WorkdirError, match=r"SHA256SUMS: cannot be removed \(Read-"):
        forget_sums(tmp_path)


def test_writes_that_fail_after_their_save_say_nothing_more(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    for _ in range(2):
        messages.drop_lost_answers()
    said = lambda text: types.SimpleNamespace(exc_value=RuntimeError(text))
    for text in ("Event loop is closed", "a bug"):
        sys.unraisablehook(said(text))
    assert [str(one.exc_value) for one in shown] == ["a bug"]


def test_writes_that_had_not_begun_when_a_save_failed_say_nothing():
    async def write():
        pass

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        messages.drop_lost_answers()
        write()  # is dropped, and not awaited
        warnings.warn("a bug", RuntimeWarning, stacklevel=1)
    assert [str(one.message) for one in warned] == ["a bug"]


def test_a_lock_can_be_taken_on_a_full_disk(tmp_path):
    """What names the holder is not written, now or when the file is closed."""
    with full_disk(), locked(tmp_path):
        pass
    assert (tmp_path / ".lock").read_bytes() == b""


@pytest.mark.slow
@pytest.mark.usefixtures("no_tensorboard")
def test_a_finished_run_without_its_pictures_gets_them_on_the_next_start(tmp_path):
    workdir = tmp_path / "run"
    result = upsilon_jax.train(baseline(), workdir)
    derived = ("curves.png", "report.html", "unlabeled.csv", "label_next.csv")
    for name in derived:
        before = (workdir / name).read_bytes()
        (workdir / name).unlink()
        assert upsilon_jax.train(baseline(), workdir) == result
        assert (workdir / name).read_bytes() == before
    (workdir / "report.html").unlink()
    (workdir / "manifest.json").unlink()  # of which it is made
    assert upsilon_jax.train(baseline(), workdir) == result


# As on a full disk: files of more than 30 kB cannot be written.
SMALL_FILES = ("sh", "-c", 'ulimit -f 60; exec "$@"', "sh")


@pytest.mark.slow
def test_a_full_disk_while_saving_is_told_in_one_last_line(tmp_path):
    workdir = tmp_path / "run"
    process = processes.start(
        *processes.TINY,
        f"--workdir={workdir}",
        env={**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "0"},
        before=SMALL_FILES,
    )
    code, out, err = processes.finish(process)
    assert code == 2 and not out
    assert "Traceback" not in err and len(err.splitlines()) < 10, err
    assert "cannot save (File too large)" in err.splitlines()[-1]
    assert not (workdir / "result.json").exists()
    code, _, err = processes.finish(
        processes.start(*processes.TINY, f"--workdir={workdir}")
    )
    assert code == 0, err
    assert all(name.isdecimal() for name in os.listdir(workdir / "checkpoints"))
