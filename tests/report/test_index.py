from tests.report.example_run import make_run_result, write_run
from tests.report.reading import Page
from upsilon_jax.report.index import write_index
from upsilon_jax.report.page import write_report
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
