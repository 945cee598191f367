"""What comes from others is read, or refused in a line, and never run."""

import csv
import io
import re
import subprocess
import zipfile

import numpy as np
import pytest
from PIL import Image

from upsilon_jax.data import images, npz, photos
from upsilon_jax.errors import DataError
from upsilon_jax.report.page.markup import tag
from upsilon_jax.runtime import memory
from upsilon_jax.workdir.csv_files import _FORMULA, write_csv

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
(mark) (w) file closefile
showpage
%%EOF
"""


def test_eps_is_no_image_and_no_program_is_started(tmp_path, monkeypatch):
    Image.init()
    Image.open(io.BytesIO(EPS))  # Pillow alone would take it
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    path = tmp_path / "photo.jpg"
    path.write_bytes(EPS)
    with pytest.raises(photos.BadImage, match="not an image"):
        photos.decode_file(str(path), 3)
    with pytest.raises(images.BadImage, match="not an image"):
        images.decode(EPS, (8, 8, 3))


@pytest.mark.parametrize("name", images.FORMATS)
def test_every_format_that_is_promised_is_read(tmp_path, name):
    Image.init()
    if name not in Image.SAVE:
        pytest.skip(f"this Pillow has no {name}")
    path, grey = tmp_path / "photo", Image.new("RGB", (8, 8), (90, 90, 90))
    # With one image alone an MPO is a JPEG.
    more = {"save_all": True, "append_images": [Image.new("RGB", (8, 8))]}
    grey.save(path, name, **(more if name == "MPO" else {}))
    with Image.open(path) as saved:
        assert saved.format == name
    pixels = np.asarray(photos.decode_file(str(path), 3)).astype(int)
    assert pixels.shape == (8, 8, 3) and abs(pixels - 90).max() < 4


def test_a_bomb_inside_a_prepared_data_set_is_refused(monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    file = io.BytesIO()
    Image.new("RGB", (100, 100)).save(file, "PNG")
    with pytest.raises(images.BadImage, match="more than 1,000 pixels"):
        images.decode(file.getvalue(), (8, 8, 3))


def test_an_npz_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros(2**22, np.uint8))
    assert (tmp_path / "bomb.npz").stat().st_size < 2**15
    monkeypatch.setattr(memory, "most_bytes", lambda: 2**20)
    with pytest.raises(DataError, match="holds 4 MiB, and there are 1 MiB of memory"):
        npz.read_arrays(str(tmp_path / "bomb.npz"), ("x",), "bomb.npz")


def test_an_npz_whose_array_says_it_is_huge_is_one_line(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (2**60,)}
    )
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(8))
    with pytest.raises(DataError, match="huge.npz: cannot be read as .npz"):
        npz.read_arrays(str(tmp_path / "huge.npz"), ("x",), "huge.npz")


def test_class_names_that_are_no_list_are_one_line(tmp_path):
    images, labels = np.zeros((2, 4, 4), np.uint8), np.arange(2)
    path = str(tmp_path / "a.npz")
    arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    np.savez(path, **arrays, class_names=np.array("cat"))
    with pytest.raises(DataError, match="class_names must be text, one for each"):
        npz.load(path=path)


def test_a_damaged_file_is_not_quoted_at_length(tmp_path):
    """Of a wrong length of a name zipfile repeats all that the name would be."""
    np.savez(tmp_path / "a.npz", x=np.zeros(2000, np.uint8))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[26:28] = (1500).to_bytes(2, "little")
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(DataError, match="File name in directory") as error:
        npz.read_arrays(str(tmp_path / "a.npz"), ("x",), "a.npz")
    assert len(str(error.value)) < 300


NAMES = [
    "=1+1",
    "+x",
    "-x",
    "@x",
    "\tx",
    "\rx",
    "\nx",
    "＝1",
    "'=1",
    "''=1",
    "'tis",
    "a",
]


def test_names_that_begin_a_formula_are_escaped_and_come_back(tmp_path):
    write_csv(tmp_path / "a.csv", ("path", "n"), [(name, -1) for name in NAMES])
    with open(tmp_path / "a.csv", encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    cells = [path for path, _ in rows]
    assert not any(cell[0] in "=+-@\t\r\n＝" for cell in cells)
    assert {number for _, number in rows} == {"-1"}
    undo = lambda cell: re.sub(f"^'(?={_FORMULA.pattern})", "", cell)
    assert [undo(cell) for cell in cells] == NAMES
    assert cells[-2:] == ["'tis", "a"]


def test_names_are_text_in_a_page():
    name = '"><script>alert(1)</script>\u202e'
    shown = tag("a", name, title=name)
    assert "<script>" not in shown and "\u202e" not in shown
    assert shown.count("<") == 2 and '"><' not in shown
