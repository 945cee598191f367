import pytest

from tests.report.made import write
from tests.report.page.example_run import make_run_result, write_run
from tests.report.page.reading import Page
from tests.workdir.test_schema import make_result
from upsilon_jax.errors import WorkdirError
from upsilon_jax.report.page.curves import save_curves
from upsilon_jax.report.page.document import write_report
from upsilon_jax.report.page.index import write_index
from upsilon_jax.workdir.schema import DIVERGED


def test_every_run_is_listed_and_leads_to_its_report(tmp_path):
    write_report(write_run(tmp_path / "a & b" / "seed_0"))
    failed = make_run_result(
        status=DIVERGED, accuracy=None, auroc=None, confusion=None, seed=3
    )
    write_run(tmp_path / "failed", result=failed, findings=False)
    page = Page(write_index(tmp_path))
    assert [a["href"] for a in page.all("a")] == ["./a%20%26%20b/seed_0/report.html"]
    assert (tmp_path / "a & b" / "seed_0" / "report.html").exists()
    assert "a & b/seed_0" in page.text and "diverged" in page.text
    values = [cell["data-value"] for cell in page.all("td") if "data-value" in cell]
    assert "0.875" in values and "" in values  # a run without a number comes last
    assert "foreign images" not in page.text  # no run has an estimate
    assert write_index(tmp_path).read_bytes() == write_index(tmp_path).read_bytes()


def test_a_config_that_has_little_is_enough_and_none_is_one_line(tmp_path):
    """As of an older run, or of data whose share of foreign images nobody knows."""
    history = make_run_result().history
    result = make_result(classes=["cat", "dog", "cow"], confusion=None, history=history)
    report = write_report(write_run(tmp_path / "run", result=result, findings=False))
    assert "Seed 0." in Page(report).text and "Network" not in Page(report).text
    save_curves(result, tmp_path / "curves.png")
    assert "the Υ-Model" in Page(write_index(tmp_path)).text
    write(tmp_path / "none", result._replace(config={}))
    with pytest.raises(WorkdirError, match="'data.name' of 'config' is missing"):
        write_index(tmp_path)
