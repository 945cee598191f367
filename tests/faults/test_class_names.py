"""A class is known by its name: names that could be taken for another are refused."""

import unicodedata

import numpy as np
import pytest

from tests.data.photo_folder import picture
from upsilon_jax.data import load_source, source
from upsilon_jax.errors import DataError

CAFE = "caf\u00e9"  # é as one character; below as e and an accent
CAFE_APART = unicodedata.normalize("NFD", CAFE)


def npz(tmp_path, *names):
    """Two classes are in use, 0 and 1."""
    path, pixels = tmp_path / "data.npz", np.zeros((4, 4, 4, 3), np.uint8)
    labels = np.array([0, 1, 0, 1])
    np.savez(
        path,
        x_train=pixels,
        y_train=labels,
        x_test=pixels,
        y_test=labels,
        class_names=np.array(names),
    )
    return load_source("npz", path=str(path))


@pytest.mark.parametrize("other", ["cat", CAFE])
def test_npz_with_two_classes_of_one_name_is_refused(tmp_path, other):
    same = CAFE_APART if other == CAFE else other
    with pytest.raises(DataError, match=r"data\.path=.*: 2 classes are called"):
        npz(tmp_path, other, same)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_class_without_a_name_is_refused(tmp_path, name):
    with pytest.raises(DataError, match="a class has an empty name"):
        npz(tmp_path, name, "dog")


def test_names_that_no_image_has_may_be_anything(tmp_path):
    assert npz(tmp_path, "cat", "dog", "", "", "cat").class_names == ("cat", "dog")


def test_names_cannot_command_a_terminal(tmp_path):
    assert npz(tmp_path, "\x1b[2J", "dog").class_names == (r"\x1b[2J", "dog")


@pytest.mark.parametrize("names", [("A", "a"), ("cat", "cat "), ("STRASSE", "straße")])
def test_names_that_differ_in_case_or_spaces_are_pointed_out(tmp_path, names):
    """They may be meant, as those of letters; they may be one class in two folders."""
    found = npz(tmp_path, *names)
    assert found.class_names == names
    assert "differ only in case or spaces" in found.notes[-1]
    assert not any("differ" in note for note in npz(tmp_path, "a", "b").notes)


def folder(tmp_path, *names):
    for part in ("labeled", "unlabeled"):
        for place, name in enumerate(names):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(2):
                seed = 100 * (part == "labeled") + 10 * place + i
                picture(seed).save(tmp_path / part / name / f"{i}.png")
    parts = {part: str(tmp_path / part) for part in ("labeled", "unlabeled")}
    return load_source("folder", image_size=8, **parts)


def test_folders_of_one_name_in_two_spellings_are_one_class(tmp_path):
    found = folder(tmp_path, CAFE, CAFE_APART, "tea")
    assert found.class_names == (CAFE, "tea")


def test_folders_that_only_look_the_same_are_refused(tmp_path):
    with pytest.raises(DataError, match="two folders would be the class"):
        folder(tmp_path, "\x01", r"\x01", "tea")


def test_a_prepared_data_set_with_two_classes_of_one_name_is_refused(monkeypatch):
    digits = load_source("digits")
    doubled = digits._replace(class_names=("0", *digits.class_names[:-1]))
    monkeypatch.setitem(source.SOURCES, "cifar10", lambda **_: doubled)
    with pytest.raises(DataError, match=r"data\.name=cifar10: 2 classes are called"):
        load_source("cifar10")
