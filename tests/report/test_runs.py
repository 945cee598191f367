"""Only repetitions are averaged, and what differs is said."""

import pytest

from tests.report.made import result, runs, write
from upsilon_jax.config import FIELDS, WITHOUT_EFFECT
from upsilon_jax.errors import UserError
from upsilon_jax.report.groups import Groups
from upsilon_jax.report.layout import markdown
from upsilon_jax.report.overview import overview
from upsilon_jax.report.results import read_runs


def rows(*results):
    lines = markdown(overview(runs(*results))).split("\n\n")[0].splitlines()
    return [lines[0], *lines[2:]]


def test_a_long_and_a_short_run_of_one_seed_are_two_rows():
    short = result("upsilon", 0.5, 0.80, fields={"train.epochs": 8})
    long = result("upsilon", 0.5, 0.90, fields={"train.epochs": 20})
    assert rows(long, short) == [
        "| data | method | settings | 50% |",
        "| digits | upsilon | epochs 20 | 90.00 |",
        "| digits | upsilon | epochs 8 | 80.00 |",
    ]


def test_only_fields_that_differ_are_said():
    wide = {"model.width": 4, "method.num_clusters": 2, "data.flip": True}
    found = rows(result("upsilon", 0.5, 0.8), result("upsilon", 0.5, 0.9, fields=wide))
    assert found[1] == "| digits | upsilon | flip no, width 2, num_clusters 4 | 80.00 |"
    assert (
        found[2] == "| digits | upsilon | flip yes, width 4, num_clusters 2 | 90.00 |"
    )


def test_what_a_method_brings_along_is_not_said():
    """K, and E_pt = 0 of methods without pre-training."""
    found = rows(*(result(m, 0.5, 0.9) for m in ("baseline", "upsilon", "oracle")))
    assert found[0] == "| data | method | 50% |"


def test_fields_without_effect_tell_no_runs_apart():
    assert WITHOUT_EFFECT <= FIELDS.keys()
    other = {"train.save_epochs": 7, "data.residency": "stream", "data.data_dir": "x"}
    found = rows(result("pl", 0.5, 0.8, 0, fields=other), result("pl", 0.5, 0.9, 1))
    assert found == ["| data | method | 50% |", "| digits | pl | 85.00 ± 7.07 |"]


def test_a_field_that_an_older_result_does_not_have_is_at_its_default():
    old = result("upsilon", 0.5, 0.8, 0)
    del old.config["method"]["solver"], old.config["train"]["lr_schedule"]
    groups = Groups(runs(old, result("upsilon", 0.5, 0.9, 1)))
    assert len(groups.blocks) == 1 and len(groups.variants(groups.blocks[0])) == 1


def test_the_same_seed_twice_is_refused_and_both_files_are_named(tmp_path):
    write(tmp_path, result("pl", 0.5, 0.8), result("pl", 0.5, 0.9))
    with pytest.raises(UserError) as refused:
        read_runs(tmp_path)
    for number in "01":
        assert str(tmp_path / number / "result.json") in str(refused.value)
    assert "\n" not in str(refused.value)


def own(place, digest, accuracy, seed=0):
    """A result on photos of one's own."""
    fields = {"data.labeled": place, "data.unlabeled": f"{place}/any"}
    return result(
        "pl", None, accuracy, seed, "folder", fields, data_digest={"all": digest * 64}
    )


def test_own_data_are_told_apart_by_their_digest():
    """Photos that were added to a folder are other data; a moved folder is the same."""
    moved = rows(own("cats", "a", 0.5), own("moved", "a", 0.6, seed=1))
    assert moved == [
        "| data | method | accuracy |",
        "| folder cats | pl | 55.00 ± 7.07 |",
    ]
    added = rows(own("cats", "a", 0.5), own("cats", "b", 0.6))
    assert added == [
        "| data | method | settings | accuracy |",
        "| folder cats | pl | digest aaaaaaaaaaaa | 50.00 |",
        "| folder cats | pl | digest bbbbbbbbbbbb | 60.00 |",
    ]


def test_long_lists_are_cut_short_and_stay_apart():
    few = tuple("01234")
    fields = [{"data.id_classes": few}, {"data.id_classes": ("0", "1", "3", "2", "4")}]
    found = rows(*(result("pl", 0.5, 0.8, fields=field) for field in fields))
    names = [row.split(" | ")[2] for row in found[1:]]
    assert all(name.startswith("id_classes 0 … 4 (5) #") for name in names)
    assert len(set(names)) == 2
