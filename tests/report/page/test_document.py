import json

import numpy as np
import pytest

from tests.report.page.example_run import (
    CLASSES,
    make_findings,
    make_manifest,
    make_run_result,
    write_run,
)
from tests.report.page.reading import Page
from upsilon_jax.errors import WorkdirError
from upsilon_jax.report.page import document
from upsilon_jax.report.page.document import write_report
from upsilon_jax.report.page.gallery import Sheet, is_foreign
from upsilon_jax.report.page.pictures import Album
from upsilon_jax.report.page.run_files import read_run
from upsilon_jax.workdir.schema import DIVERGED

ALWAYS = ["curves", "settings"]
OF_FINDINGS = ["foreign", "groups", "most-foreign", "surest", "doubtful", "mistakes"]
ALL = [*OF_FINDINGS, "labels", "confusion", *ALWAYS]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The report of a run that has everything, but no baseline."""
    return write_report(write_run(tmp_path_factory.mktemp("runs") / "upsilon"))


def test_every_section_is_there_and_linked(whole):
    page = Page(whole)
    assert page.sections == ALL
    links = [a["href"] for a in page.all("a")]
    assert links == ["#main", *(f"#{name}" for name in ALL)]
    assert "87.5 %" in page.text and "cat, dog and cow" in page.text
    assert "--config=digits:upsilon" in page.text


def test_the_page_needs_nothing_else(whole):
    addresses = Page(whole).addresses()
    assert addresses and all(a.startswith("data:image/") for a in addresses)
    assert "url(" not in whole.read_text("utf-8")
    assert "http://" not in whole.read_text("utf-8")
    assert "https://" not in whole.read_text("utf-8")


def test_the_page_serves_those_who_do_not_see_it(whole):
    page = Page(whole)
    assert page.all("html") == [{"lang": "en"}]
    for landmark in ("h1", "main", "header", "nav", "footer"):
        assert len(page.all(landmark)) == 1
    assert all(image["alt"] for image in page.all("img"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_same_files_give_the_same_bytes(whole, tmp_path):
    again = write_report(write_run(tmp_path / "upsilon"))
    assert again.read_bytes() == whole.read_bytes()


def test_names_are_escaped(tmp_path, whole):
    evil = ['<b>"x"', "a & b</style>", "</script><script>alert('ä')"]
    manifest = make_manifest(evil)
    paths = [f'heap/"{i}" <i>&amp;\u202e\n.png' for i in range(90)]
    run = write_run(
        tmp_path / "<u>run",
        manifest=manifest,
        result=make_run_result(manifest),
        findings=make_findings(paths=paths),
    )
    page = Page(write_report(run))
    # The same elements in the same order as with harmless names.
    assert [tag for tag, _ in page.elements] == [t for t, _ in Page(whole).elements]
    assert '<b>"x"' in page.text and "a & b</style>" in page.text
    assert 'heap/"' in page.text and "\u202e" not in page.text


def test_a_name_that_is_no_text_is_shown_as_far_as_it_is():
    tagged = document.tag("p", "a\udcff\x00b", title="\udcff")
    assert tagged == '<p title="?">a?\ufffdb</p>'


def test_without_truth_nothing_is_said_of_it(tmp_path):
    found = make_findings()
    found = found._replace(
        unlabeled=found.unlabeled._replace(truth=np.full(90, -1, np.int32))
    )
    page = Page(write_report(write_run(tmp_path / "run", findings=found)))
    assert page.sections == ALL
    assert "Most probable class of all unlabeled images" in page.text
    assert "Most probable class of foreign images" not in page.text
    assert "most foreign, so many are foreign" not in page.text


def test_without_clusters_and_pseudo_labels_their_parts_are_left_out(tmp_path):
    found = make_findings(num_clusters=0)
    found = found._replace(pseudo_label=np.full(90, -1, np.int32))
    manifest = make_manifest(num_clusters=0, foreign_below=None)
    page = Page(
        write_report(write_run(tmp_path / "run", findings=found, manifest=manifest))
    )
    assert page.sections == [name for name in ALL if name != "groups"]
    assert "Confident guesses" not in page.text and "for foreign" not in page.text


@pytest.mark.parametrize("below", [0.2, 0.6, None])
def test_pictures_and_counts_agree_on_what_is_foreign(tmp_path, below):
    manifest = make_manifest(foreign_below=below)
    run = read_run(write_run(tmp_path / "run", manifest=manifest))
    of_heap = run.found.thumbnail_of[run.found.thumbnail_of < 90]
    pictures = Album(run, 10**6).pictures(Sheet(-1, of_heap, 90))
    named_foreign = [picture.suggestion not in CLASSES for picture in pictures]
    expected = is_foreign(run.found, manifest)[of_heap]
    assert named_foreign == expected.tolist() and set(named_foreign) == {True, False}


def test_grey_pictures_are_shown(tmp_path):
    page = Page(write_report(write_run(tmp_path / "run", grey=True)))
    assert len(page.all("img")) > 50


def test_what_looked_wrong_is_said_beside_the_numbers(tmp_path, whole):
    result = make_run_result(warnings=["epoch 8: N is 0 <at> 3 refreshes"])
    page = Page(write_report(write_run(tmp_path / "run", result=result)))
    assert "epoch 8: N is 0 <at> 3 refreshes" in page.text
    assert "looked wrong" in page.text and "looked wrong" not in Page(whole).text


def test_a_diverged_run_says_so_and_shows_its_curves(tmp_path):
    result = make_run_result(
        status=DIVERGED, accuracy=None, auroc=None, confusion=None, diverged_step=21
    )
    run = write_run(tmp_path / "run", result=result, findings=False)
    page = Page(write_report(run))
    assert page.sections == ALWAYS
    assert "This run failed. At step 21" in page.text
    assert not page.all("img") and not page.all("dialog")


def test_a_run_that_diverged_at_once_has_no_curves(tmp_path):
    result = make_run_result(
        status=DIVERGED, accuracy=None, confusion=None, diverged_step=1, history=[]
    )
    run = write_run(tmp_path / "run", result=result, findings=False)
    assert Page(write_report(run)).sections == ["settings"]


def test_a_finished_run_without_findings_has_no_pictures(tmp_path):
    page = Page(write_report(write_run(tmp_path / "run", findings=False)))
    assert page.sections == ["confusion", *ALWAYS]
    assert "no pictures" in page.text


def test_missing_and_damaged_files_are_one_line(tmp_path):
    with pytest.raises(WorkdirError, match=r"result\.json"):
        write_report(tmp_path)
    run = write_run(tmp_path / "run")
    (run / "findings.npz").write_bytes(b"no")
    with pytest.raises(WorkdirError, match=r"findings\.npz"):
        write_report(run)


def test_large_pictures_become_small_enough(tmp_path):
    """Noise of 96 × 96 pixels, which no format makes small."""
    path = write_report(write_run(tmp_path / "run", side=96))
    assert 1_000_000 < path.stat().st_size <= document.MAX_BYTES
    assert all("image/jpeg" in image["src"] for image in Page(path).all("img"))


def test_pictures_are_left_out_where_nothing_else_helps(tmp_path, monkeypatch, whole):
    everything = len(Page(whole).all("img"))
    monkeypatch.setattr(document, "MAX_BYTES", 130_000)
    monkeypatch.setattr(document, "_FOR_PICTURES", 80_000)
    path = write_report(write_run(tmp_path / "run", side=48))
    assert path.stat().st_size <= 130_000
    page = Page(path)
    assert 0 < len(page.all("img")) < everything / 2
    assert "87.5 %" in page.text


def test_many_classes_have_a_list_of_confusions_instead_of_a_matrix(tmp_path):
    names = [f"class {i}" for i in range(60)]
    manifest = make_manifest(names, num_clusters=4)
    result = make_run_result(manifest)
    result.confusion[3][5] = 99
    found = make_findings(num_classes=60, num_clusters=4, num_unlabeled=600)
    run = write_run(tmp_path / "run", manifest=manifest, result=result, findings=found)
    page = Page(write_report(run))
    assert "class 3 → class 5" in page.text
    classes = [heading for heading in page.texts if heading.startswith("class 3")]
    assert classes and "image in all" not in page.text  # one sheet for all classes
    assert not any("confusion" in t.get("class", "") for t in page.all("table"))


def test_a_baseline_beside_the_run_is_compared_with_it(tmp_path):
    run = write_run(tmp_path / "upsilon")
    before = Page(write_report(run))
    assert "comparison" not in before.sections
    assert "--config=digits:baseline" in before.text  # how to make one

    def beside(name, **fields):
        result = make_run_result(accuracy=0.75, auroc=0.5, **fields)
        config = json.loads(json.dumps(result.config))
        config["method"] = {"name": "baseline"}
        result = result._replace(config=config)
        return write_run(tmp_path / name, result=result, findings=make_findings(seed=1))

    beside("other_seed", seed=1)
    beside("other_split", split_digest="2" * 64)
    beside("diverged", status=DIVERGED)
    damaged = beside("damaged")
    (damaged / "result.json").write_text("{")
    assert "comparison" not in Page(write_report(run)).sections
    beside("baseline")
    page = Page(write_report(run))
    assert page.sections[0] == "comparison"
    assert "+12.5 points" in page.text and "+25.0" in page.text
    assert "foreign among the 25 most foreign" in page.text
    assert "--config=digits:baseline" not in page.text
