import csv

import numpy as np
import pytest

from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.csv_files import write_csv


def test_a_table_is_plain_utf8_with_the_line_ends_of_the_standard(tmp_path):
    write_csv(tmp_path / "a.csv", ("path", "share"), [("ä,b\n.png", 0.25)])
    assert (tmp_path / "a.csv").read_bytes() == (
        b'path,share\r\n"\xc3\xa4,b\n.png",0.25\r\n'
    )
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("-x.png", "'-x.png"),
        (np.str_("@me"), "'@me"),
        ("a=1", "a=1"),
        (-1, "-1"),
        (np.float32(0.1), "0.1"),
        (np.bool_(True), "1"),
        (False, "0"),
        (None, ""),
        (np.float32("nan"), ""),
        ("\udcff.png", "\\udcff.png"),  # a name that is no UTF-8
    ],
)
def test_cells(tmp_path, value, cell):
    write_csv(tmp_path / "a.csv", ("x", "y"), [(value, "end")])
    with open(tmp_path / "a.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["x", "y"], [cell, "end"]]


def test_a_table_is_written_whole_or_not_at_all(tmp_path):
    def rows():
        yield ("first",)
        raise KeyboardInterrupt

    (tmp_path / "a.csv").write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        write_csv(tmp_path / "a.csv", ("x",), rows())
    assert (tmp_path / "a.csv").read_text() == "earlier"
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(WorkdirError, match=r"none/a\.csv: cannot be written \(No such"):
        write_csv(tmp_path / "none" / "a.csv", ("x",), [])
