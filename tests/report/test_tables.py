"""Tables of the paper: published numbers, differences, and their formats."""

import csv
import io
import re

import numpy as np
import pytest
import scipy.stats

from tests.report.made import desk, result, runs
from upsilon_jax.errors import ConfigError
from upsilon_jax.report.layout import as_csv, latex, markdown
from upsilon_jax.report.statistics import paired
from upsilon_jax.report.tables import TABLES, paper_table
from upsilon_jax.workdir.schema import Imbalance


def lines(table):
    return markdown(table).splitlines()


def cells(table, **where):
    """The lines of the CSV that agree with the given columns."""
    found = csv.DictReader(io.StringIO(as_csv(table)))
    return [row for row in found if where.items() <= row.items()]


def test_a_paired_difference_has_the_interval_of_scipy():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(70, 2, 5), rng.normal(69, 2, 5)
    found = paired(dict(enumerate(ours)), {**dict(enumerate(theirs)), 9: 0.0})
    expected = scipy.stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert found.mean == pytest.approx((ours - theirs).mean())
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.count == 5
    assert paired({1: 3.0}, {1: 1.0}) == (2.0, None, None, 1)
    assert paired({1: 3.0}, {2: 1.0}) is None


def ablation(width=1):
    fields = {"model.width": width}
    found = [
        desk(method, ratio, base + 0.01 * seed * (1 + ratio), seed, fields=fields)
        for method, base in (("pl", 0.58), ("upsilon", 0.63))
        for ratio in (0.5, 1.0)
        for seed in range(3)
    ]
    return found + [
        desk("baseline", 1.0, 0.60 + 0.005 * seed, seed, fields=fields)
        for seed in range(3)
    ]


def test_published_numbers_stand_beside_ours():
    table = paper_table("ablation", runs(*ablation()))
    (cell,) = cells(table, method="Υ-Model", column="100%")
    assert cell["published"] == "78.50" and cell["published_std"] == "0.27"
    assert float(cell["mean"]) == pytest.approx(65.0) and cell["count"] == "3"
    (missing,) = cells(table, method="Υ-Model", column="25%")
    assert missing["mean"] == "" and missing["published"] == "78.93"
    row = next(line for line in lines(table) if "Υ-Model |" in line)
    assert "| **65.00 ± 2.00** | **78.50 ± 0.27** |" in row and "| — | **78.93" in row


def test_differences_are_paired_with_the_baseline_of_the_same_seed():
    """It was run at 100 % only, and serves the other ratios: it sees no D_u."""
    table = paper_table("ablation", runs(*ablation()))
    base = np.array([60, 60.5, 61])
    for column, ours in (("50%", [63, 64.5, 66]), ("100%", [63, 65, 67])):
        (cell,) = cells(table, method="Υ-Model", column=column)
        change = np.array(ours) - base
        low, high = scipy.stats.t.interval(
            0.95, 2, change.mean(), change.std(ddof=1) / 3**0.5
        )
        assert float(cell["difference"]) == pytest.approx(change.mean())
        assert (float(cell["low"]), float(cell["high"])) == pytest.approx((low, high))
        assert cell["pairs"] == "3"
    assert "the baseline sees no unlabeled image" in markdown(table)
    assert "+4.50 [" in markdown(table)


def test_a_baseline_serves_a_ratio_with_the_seeds_that_others_have_there():
    made = runs(
        *(desk("baseline", 1.0, 0.60 + 0.05 * seed, seed) for seed in range(3)),
        *(desk("pl", 0.5, 0.58, seed) for seed in range(2)),
    )
    (cell,) = cells(paper_table("ablation", made), method="Baseline", column="50%")
    assert cell["count"] == "2" and float(cell["mean"]) == pytest.approx(62.5)


def test_what_is_of_the_heap_is_served_by_no_other_ratio():
    made = runs(desk("baseline", 0.5, 0.6), desk("pl", 1.0, 0.58))
    for metric, shown in (("accuracy", "60.00"), ("kl_ood", "")):
        table = paper_table("ablation", made, metric)
        (cell,) = cells(table, method="Baseline", column="100%")
        assert bool(cell["mean"]) == bool(shown)
        assert ("its runs at another stand" in markdown(table)) == bool(shown)


def test_where_a_run_diverged_there_is_no_difference():
    lost = desk("pl", 0.5, None, 3, status="diverged")
    table = paper_table("ablation", runs(*ablation(), lost))
    at = {c: cells(table, method="PL", column=c)[0] for c in ("50%", "100%")}
    assert at["50%"]["difference"] == "" and at["100%"]["difference"]


def test_runs_of_another_setting_are_rows_of_their_own_and_say_so():
    both = paper_table("ablation", runs(*ablation(), *ablation(width=2)))
    for width in ("width 1", "width 2"):
        (cell,) = cells(both, method="Υ-Model", settings=width, column="100%")
        assert cell["count"] == "3" and cell["published"] == "78.50"
    assert "not the paper's setting" in markdown(both)
    assert "depth 10 (28)" in markdown(both)


def test_the_paper_number_stands_beside_the_variant_most_like_the_paper():
    fewer = [
        desk("upsilon", 1.0, 0.7, fields={"method.num_clusters": k}) for k in (1, 2, 4)
    ]
    table = paper_table("ablation", runs(*fewer))
    shown = {
        cell["settings"]: cell["published"]
        for cell in cells(table, method="Υ-Model", column="100%")
    }
    assert shown == {
        "num_clusters 1": "",
        "num_clusters 2": "",
        "num_clusters 4": "78.50",
    }


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_runs_has_the_published_numbers(name):
    found = cells(paper_table(name, []))
    assert any(cell["published"] for cell in found)
    assert not any(cell["mean"] for cell in found)
    assert "the numbers are the paper's" in markdown(paper_table(name, []))


def test_re_assigned_is_the_best_of_its_maps():
    found = [
        desk(
            "re_assigned", 1.0, mean + 0.01 * s, s, fields={"method.assignment_seed": m}
        )
        for m, mean in enumerate([0.5, 0.56, 0.52])
        for s in (0, 1)
    ]
    table = paper_table("strategies", runs(*found, desk("baseline", 1.0, 0.6)))
    (cell,) = cells(table, strategy="Re-Assigned", column="CIFAR-10 (6/4)")
    assert float(cell["mean"]) == pytest.approx(56.5) and cell["published"] == "75.99"
    assert float(cell["difference"]) == pytest.approx(-4.0)
    assert "the best of 3 maps" in markdown(table)


def test_the_best_map_is_of_those_that_differ_in_nothing_else():
    found = [
        desk(
            "re_assigned",
            1.0,
            0.5 + 0.01 * m + 0.1 * (weight == 2),
            fields={"method.assignment_seed": m, "method.loss_weight": weight},
        )
        for m in (0, 1)
        for weight in (1.0, 2.0)
    ]
    table = paper_table("strategies", runs(*found))
    column = "CIFAR-10 (6/4)"
    for weight, mean in (("1", 51.0), ("2", 61.0)):
        name = f"Re-Assigned, loss_weight {weight}"
        (cell,) = cells(table, strategy=name, column=column)
        assert float(cell["mean"]) == pytest.approx(mean)
        assert f"{name} on {column}: the best of 2 maps" in markdown(table)


def test_strategies_take_a_baseline_of_another_ratio():
    made = runs(desk("oracle", 1.0, 0.9), desk("baseline", 0.5, 0.6))
    table = paper_table("strategies", made)
    (cell,) = cells(table, strategy="Oracle", column="CIFAR-10 (6/4)")
    assert float(cell["difference"]) == pytest.approx(30)
    assert "its runs at another stand" in markdown(table)


def test_strategies_take_only_runs_without_id_images_in_the_heap():
    table = paper_table("strategies", runs(desk("oracle", 0.5, 0.9)))
    assert not any(cell["mean"] for cell in cells(table))


def test_imbalance_has_a_column_for_each_ratio_and_metrics_of_its_own():
    both = runs(desk("baseline", 0.5, 0.6), desk("baseline", 0.25, 0.6, 1))
    table = paper_table("imbalance", both)
    assert table.columns[:2] == ("CIFAR-10 (6/4), 25%", "CIFAR-10 (6/4), 50%")
    (cell,) = cells(table, metric="kl_ood", column="CIFAR-10 (6/4), 50%")
    assert float(cell["mean"]) == pytest.approx(0.3) and cell["published"] == "0.3636"
    assert "has no ratio" not in markdown(table)
    with pytest.raises(ConfigError, match="leave out --metric"):
        paper_table("imbalance", both, "auroc")


def test_a_class_without_labels_is_said_to_leave_no_ratio():
    endless = Imbalance(0.01, 1.5, 0.3, None)
    made = runs(
        desk("baseline", 0.5, 0.6), desk("baseline", 0.5, 0.6, 1, imbalance=endless)
    )
    table = paper_table("imbalance", made)
    (cell,) = cells(table, metric="ratio_ood", column="CIFAR-10 (6/4)")
    assert cell["count"] == "1" and "got no label has no ratio" in markdown(table)


def test_long_tails_and_augmentations_have_tables_of_their_own():
    tail = desk("pl", 1.0, 0.5, config="cifar10_imbalanced")
    strong = desk("pl", 1.0, 0.7, fields={"data.augmentation": "randaug"})
    both = runs(tail, strong)
    (cell,) = cells(paper_table("imbalanced_ood", both), method="PL", column="100%")
    assert float(cell["mean"]) == 50.0 and cell["published"] == "73.33"
    fixmix = [c for c in cells(paper_table("fixmix", both), column="100%") if c["mean"]]
    (cell,) = fixmix
    assert float(cell["mean"]) == pytest.approx(70) and cell["published"] == "81.62"
    assert "RandAugment" in cell["data"]


def test_other_data_have_a_block_without_published_numbers():
    table = paper_table("ablation", runs(result("pl", 1.0, 0.9)))
    (cell,) = cells(table, data="digits", method="PL", column="100%")
    assert float(cell["mean"]) == 90 and not cell["published"]


@pytest.mark.parametrize("name", TABLES)
def test_latex_is_balanced_and_escaped(name):
    odd = result("pl", None, 0.5, config="folder", fields={"data.labeled": "a_b & 5%"})
    text = latex(paper_table(name, runs(*ablation(), odd)))
    code = "\n".join(line for line in text.splitlines() if line[:1] != "%")
    bare = re.sub(r"\\[&%$#_{}]", "", code)
    assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
    assert not re.search(r"[%#_±Υ—³]", bare)
    for tabular in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end", bare, re.S):
        columns, body = tabular
        rows = [row for row in body.split("\n") if row.endswith(r"\\")]
        assert rows and all(row.count("&") == len(columns) - 1 for row in rows)
    assert code.count(r"\begin{tabular}") == code.count(r"\end{tabular}") >= 1
