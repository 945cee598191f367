"""What a workdir shows is made again, and nothing damaged is called sound for it."""

import pytest

from tests.report.page.example_run import write_run
from upsilon_jax.errors import WorkdirError
from upsilon_jax.report.page import workdir_files
from upsilon_jax.workdir import files
from upsilon_jax.workdir.sums import SUMS, is_sound, write_sums


@pytest.fixture
def workdir(tmp_path):
    folder = write_run(tmp_path / "run")
    files.write_json(folder / files.PHOTOS, {})
    workdir_files.remake(folder)
    return folder


def test_all_that_is_there_has_a_checksum_that_fits(workdir):
    listed = (workdir / SUMS).read_text("utf-8").split()[1::2]
    assert sorted(listed) == sorted(files.LISTED)
    assert all(is_sound(workdir / name) for name in listed)


def test_one_that_is_killed_on_its_way_leaves_no_wrong_list(workdir, monkeypatch):
    def die(run):
        raise KeyboardInterrupt

    (workdir / files.CURVES).write_bytes(b"of an earlier version")
    write_sums(workdir, files.LISTED)
    monkeypatch.setattr(workdir_files, "write_page", die)
    with pytest.raises(KeyboardInterrupt):
        workdir_files.remake(workdir)
    assert all(is_sound(workdir / name) for name in files.LISTED)


@pytest.mark.parametrize("name", sorted({*files.LISTED} - {*files.SHOWN}))
def test_a_damaged_file_gets_no_checksum_that_fits(workdir, name):
    before = (workdir / SUMS).read_bytes()
    (workdir / files.CURVES).unlink()
    (workdir / name).write_bytes((workdir / name).read_bytes() + b"\n")
    workdir_files.remake_missing(workdir)
    assert (workdir / SUMS).read_bytes() == before and not is_sound(workdir / name)
    with pytest.raises(WorkdirError, match=f"{name}: is damaged"):
        workdir_files.remake(workdir)
