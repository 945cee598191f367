"""Results are found at any depth, whole or as summaries."""

import json
import pathlib

import numpy as np
import pytest

from tests.report.made import CLASSES, desk, found, result, write
from tests.report.page.example_run import make_manifest
from upsilon_jax.errors import UserError
from upsilon_jax.report.layout import as_csv, markdown
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.open_set import measure_open_set
from upsilon_jax.report.overview import overview
from upsilon_jax.report.page.index import write_index
from upsilon_jax.report.results import (
    read_runs,
    unlabeled_confusion,
    write_summaries,
)
from upsilon_jax.report.tables import TABLES, paper_table
from upsilon_jax.workdir import files, findings
from upsilon_jax.workdir.saved import set_run_aside

ROOT = pathlib.Path(__file__).parents[2]


def test_results_are_found_at_any_depth(tmp_path):
    write(tmp_path / "b", result("pl", 0.5, 0.5))
    write(tmp_path / "a" / "c", result("pl", 0.5, 0.25, seed=1))
    assert [run.result.accuracy for run in read_runs(tmp_path)] == [0.5, 0.25]


def test_a_run_that_was_set_aside_is_left_out_unless_it_is_asked_for(tmp_path):
    workdir = tmp_path / "run"
    workdir.mkdir()
    for earlier in ("earlier", "earlier_2", None):
        files.write_json(workdir / files.RESULT, result("pl", 0.5, 0.5))
        assert earlier is None or set_run_aside(workdir) == workdir / earlier
    for folder in (workdir, workdir / "earlier_2"):
        assert [run.path.parent for run in read_runs(folder)] == [folder]
        assert "1 run in" in write_index(folder).read_text("utf-8")


def test_a_folder_may_be_empty_but_must_be_there(tmp_path):
    with pytest.raises(UserError, match=r"no result\.json"):
        read_runs(tmp_path)
    assert read_runs(tmp_path, may_be_empty=True) == []
    for may_be_empty in (False, True):
        with pytest.raises(UserError, match="no such folder"):
            read_runs(tmp_path / "typo", may_be_empty=may_be_empty)


@pytest.fixture(scope="module")
def many():
    return [
        desk(method, ratio, 0.6 + 0.01 * seed + 0.02 * ratio, seed, fields=fields)
        for method in ("baseline", "pl", "upsilon", "oracle")
        for ratio in (0.5, 1.0)
        for seed in (0, 1, 2)
        for fields in ({}, {"model.width": 2})
    ]


def test_tables_of_summaries_are_those_of_the_results(tmp_path, many):
    write(tmp_path / "whole", *many)
    whole = read_runs(tmp_path / "whole")
    written = write_summaries(whole, tmp_path / "small")
    assert len(set(written)) == len(many) == 48
    assert max(path.stat().st_size for path in written) < 5000
    small = read_runs(tmp_path / "small")
    for name in TABLES:
        assert as_csv(paper_table(name, small)) == as_csv(paper_table(name, whole))
    costs = [markdown(overview(runs, cost_of="pl")) for runs in (small, whole)]
    assert costs[0] == costs[1] and "step / pl" in costs[0]
    assert len(read_runs(tmp_path)) == len(many)  # each counts once


def test_a_summary_leaves_out_what_is_bulky_or_private_to_a_machine(tmp_path):
    one = desk("pl", 0.5, 0.6, fields={"data.data_dir": "/home/me/data"})
    write(tmp_path / "whole", one)
    run = read_runs(tmp_path / "whole")[0]
    (path,) = write_summaries([run], tmp_path / "small")
    assert path.name.startswith("cifar10-pl-m50-s0-")
    stored = json.loads(path.read_text("utf-8"))
    assert "data_dir" not in stored["config"]["data"]
    assert set(stored["history"][0]) == {
        *("epoch", "step", "accuracy", "train_seconds", "refresh_seconds"),
        *("num_selected", "num_confident", "per_class", "num_explored"),
        *("ood_share", "pseudo_accuracy"),
    }
    assert write_summaries([run], tmp_path / "small") == [path]  # the same name again


def test_a_summary_keeps_what_figures_need_of_the_files_beside_it(tmp_path):
    write(tmp_path / "whole", desk("pl", 0.5, 0.6))
    findings.save(tmp_path / "whole" / "0" / "findings.npz", found())
    manifest = make_manifest(
        CLASSES[:6], num_clusters=0, foreign_below=None, data_digest={"all": "d" * 64}
    )
    files.write_json(tmp_path / "whole" / "0" / "manifest.json", manifest)
    (whole,) = read_runs(tmp_path / "whole")
    counts = unlabeled_confusion(whole)
    assert counts.shape == (10, 6) and counts.sum() == 300
    assert (counts[:6].sum(1) == 25).all() and counts[6:9, 0].sum() > 90
    write_summaries([whole], tmp_path / "small")
    (small,) = read_runs(tmp_path / "small")
    np.testing.assert_array_equal(unlabeled_confusion(small), counts)
    assert small.result.data_digest == {"all": "d" * 64}


def test_a_summary_has_what_an_older_result_was_not_measured_for(tmp_path):
    write(tmp_path / "whole", desk("pl", 0.5, 0.6))
    findings.save(tmp_path / "whole" / "0" / "findings.npz", found())
    manifest = make_manifest(CLASSES[:6], num_clusters=0, foreign_below=0.5)
    files.write_json(tmp_path / "whole" / "0" / "manifest.json", manifest)
    write_summaries(read_runs(tmp_path / "whole"), tmp_path / "small")
    (small,) = read_runs(tmp_path / "small")
    expected = measure_open_set(found().test, 6, 0.5)
    assert small.result.open_set == expected and expected.balanced_accuracy > 0.3


def test_committed_summaries_keep_their_names_and_lack_newer_metrics(tmp_path):
    """A field that is added must not change the fingerprint of a run without it."""
    committed = read_runs(ROOT / "results" / "digits" / "auto")
    written = write_summaries(committed, tmp_path)
    assert {path.name for path in written} == {run.path.name for run in committed}
    table = overview(committed, MEASURES["fpr95"])
    assert "| digits | upsilon | — | — | — | — | — |" in markdown(table)
