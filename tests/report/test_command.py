"""`python -m upsilon_jax.report` as a user meets it."""

import csv
import io

import pytest

from tests.report.made import desk, result, write
from upsilon_jax import commandline
from upsilon_jax.report import __main__ as command


@pytest.fixture
def report(tmp_path, capsys):
    """Calls the command on a folder of two runs → (exit code, output, error)."""
    write(tmp_path / "runs", desk("pl", 1.0, 0.6), desk("baseline", 1.0, 0.58))

    def call(*flags, folder="runs"):
        argv = [str(tmp_path / folder), *flags]
        code = commandline.call(command.COMMAND, command.main, argv)
        return code, *capsys.readouterr()

    return call


@pytest.fixture(autouse=True)
def no_process_settings(monkeypatch):
    monkeypatch.setattr(commandline, "set_up_process", lambda: None)


def test_a_table_is_printed_or_written(report, tmp_path):
    code, shown, _ = report("--table=ablation", "--format=csv")
    assert code == 0 and len(list(csv.reader(io.StringIO(shown)))) == 1 + 6 * 5
    path = tmp_path / "table.csv"
    report("--table=ablation", "--format=csv", f"--output={path}")
    assert path.read_text("utf-8") == shown


def test_no_cell_of_a_csv_table_begins_a_formula_but_numbers_stay(report, tmp_path):
    named = desk("pl", 1.0, 0.5)
    named.config["method"]["name"] = named.config["data"]["name"] = "=cmd()"
    write(tmp_path / "odd", named, desk("pl", 1.0, 0.6), desk("baseline", 1.0, 0.9))
    _, shown, _ = report("--format=csv", folder="odd")
    cells = {cell for row in csv.reader(io.StringIO(shown)) for cell in row}
    assert "'=cmd()" in cells and not any(cell.startswith("=") for cell in cells)
    assert "-30" in cells  # pl against the baseline, in percent


def test_a_place_whose_name_is_no_text_is_written_with_escapes(report, tmp_path):
    fields = {"data.name": "npz", "data.path": "a\udcff.npz"}
    write(tmp_path / "odd", result("pl", 1.0, 0.5, config="npz", fields=fields))
    code, shown, _ = report(folder="odd")
    assert code == 0 and "a\\udcff.npz" in shown
    code, _, _ = report(f"--summaries={tmp_path / 'small'}", folder="odd")
    assert code == 0 and report(folder="small") == (0, shown, "")
    path = tmp_path / "table.md"
    report(f"--output={path}", folder="odd")
    assert path.read_text("utf-8") == shown


def test_a_folder_without_runs_shows_the_published_numbers(report, tmp_path):
    (tmp_path / "empty").mkdir()
    code, shown, _ = report("--table=compare", folder="empty")
    assert code == 0 and "62.10 ± 0.30" in shown
    code, _, error = report(folder="empty")
    assert code == 2 and "no result.json found" in error


def test_a_figure_goes_beside_the_runs_and_a_table_may_come_along(report, tmp_path):
    code, shown, _ = report("--figure=ratio", "--table=ablation")
    assert code == 0 and "ratio.png" in shown and "| Baseline |" in shown
    assert (tmp_path / "runs" / "ratio.svg").exists()


def test_methods_can_be_chosen(report):
    _, shown, _ = report("--methods=pl")
    assert "| pl |" in shown and "baseline" not in shown
    code, _, error = report("--methods=vat")
    assert code == 2 and "--methods=vat: no run of these" in error


def test_summaries_are_written_and_read_as_runs(report, tmp_path):
    _, whole, _ = report("--table=ablation")
    code, shown, _ = report(f"--summaries={tmp_path / 'small'}")
    assert code == 0 and shown.startswith("2 summaries in ")
    assert report("--table=ablation", folder="small") == (0, whole, "")
    code, _, error = report(folder="small")
    assert (code, error) == (0, "")
    assert not (tmp_path / "small" / "index.html").exists()  # there are no pages


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--table=ablaton"], "--table=ablaton: no such table; did you mean ablation"),
        (["--figure=ratios"], "--figure=ratios: no such figure; did you mean ratio"),
        (["--metric=acuracy"], "--metric=acuracy: no such metric; did you mean accur"),
        (["--format=tex"], "--format=tex: no such format; did you mean latex"),
        (["--table=ablation", "--figure=ratio", "--output=x"], "not for both"),
        ([f"--summaries={__file__}"], "cannot be a folder"),
        (["--table=foreign", "--format=csv"], "has one format"),
        (["--table=foreign", "--metric=auroc"], "metrics of its own"),
        (["--cost_of=vat"], "--cost_of=vat: no run of it"),
        (["--cost_of=pl", "--table=ablation"], "of the table of all runs"),
        (["--methods=vat", "--table=ablation"], "--methods=vat: no run of these"),
        (["--figure=cost"], "no Υ-Model with several K or iterations here"),
    ],
)
def test_what_cannot_be_done_is_one_line(report, flags, message):
    code, shown, error = report(*flags)
    assert code == 2 and not shown and message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--output={tmp}/a/b.md"], "there is no folder"),
        (["--output={tmp}"], "is a folder"),
        (["--output=/dev/null"], "is no file"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_early(
    report, tmp_path, monkeypatch, flags, message
):
    monkeypatch.setattr(command, "read_runs", lambda *_, **__: pytest.fail("too late"))
    code, shown, error = report(*(flag.format(tmp=tmp_path) for flag in flags))
    assert code == 2 and not shown and message in error and error.count("\n") == 1


def test_help_names_all_tables_and_figures():
    text = commandline.help_text(command.COMMAND)
    for names in command.CHOICES.values():
        assert all(name in text for name in names)
