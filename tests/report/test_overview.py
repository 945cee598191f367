"""The table of all runs: cells, ranks and settings."""

import statistics

from tests.report.made import desk, result, runs
from upsilon_jax.report.layout import markdown
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.overview import overview
from upsilon_jax.workdir.schema import Entry, Labels


def lines(table):
    return markdown(table).splitlines()


def test_a_cell_is_the_mean_and_the_sample_standard_deviation():
    values = (0.90, 0.94, 0.95)
    table = overview(runs(*(result("pl", 0.5, a, s) for s, a in enumerate(values))))
    mean, std = statistics.mean([90, 94, 95]), statistics.stdev([90, 94, 95])
    assert f"| digits | pl | {mean:.2f} ± {std:.2f} |" in markdown(table)
    assert "seeds per cell: 3" in markdown(table)


def test_missing_cells_unequal_counts_and_divergence_are_said():
    table = overview(
        runs(
            result("upsilon", 0.0, 0.9),
            result("upsilon", 0.0, 0.8, 1),
            result("upsilon", 1.0, 0.7),
            result("fixmatch", 1.0, None, status="diverged"),
            result("vat", 1.0, 0.5, 1, status="diverged"),
            result("vat", 1.0, 0.5, 2),
        )
    )
    assert lines(table)[0] == "| data | method | 0% | 100% |"
    assert lines(table)[2:5] == [
        "| digits | upsilon | 85.00 ± 7.07 (n = 2) | 70.00 (n = 1) |",
        "| digits | fixmatch | — | diverge |",
        "| digits | vat | — | diverge (1 of 2) |",
    ]


def test_a_cell_of_fewer_seeds_than_its_rivals_is_not_ranked():
    several = [
        result(method, 0.5, height + seed / 100, seed)
        for method, height in (("pl", 0.7), ("rpl", 0.8))
        for seed in range(2)
    ]
    table = overview(runs(*several, result("upsilon", 0.5, 0.99)))
    assert lines(table)[2:5] == [
        "| digits | pl | <u>70.50 ± 0.71 (n = 2)</u> |",
        "| digits | rpl | **80.50 ± 0.71 (n = 2)** |",
        "| digits | upsilon | 99.00 (n = 1) |",
    ]
    assert "ranked in a column are cells of the most" in markdown(table)


def test_where_much_differs_a_row_names_what_is_unusual():
    """Any four fields are still all named in each row."""
    changes = [
        {"method.labeler": "ema"},
        {"method.solver": "newton"},
        {"train.epochs": 120},
        {"model.width": 5},
    ]
    made = [
        result("upsilon", 1.0, 0.9),
        *(result("upsilon", 1.0, 0.8, fields=f) for f in changes),
    ]
    few = lines(overview(runs(*made)))
    assert few[2].startswith(
        "| digits | upsilon | width 2, epochs 60, labeler live, solver sinkhorn |"
    )
    made.append(result("upsilon", 1.0, 0.7, fields={"method.loss_weight": 0.5}))
    many = overview(runs(*made))
    named = [line.split(" | ")[2] for line in lines(many)[2:8]]
    assert sorted(named) == [
        "",
        "epochs 120",
        "labeler ema",
        "loss_weight 0.5",
        "solver newton",
        "width 5",
    ]
    assert (
        "digits, upsilon: where nothing else is said, width 2, epochs 60, "
        "labeler live, loss_weight 1, solver sinkhorn." in markdown(many)
    )


def test_costs_are_ratios_of_paired_runs_in_the_second_half_of_training():
    def timed(method, seed, seconds):
        history = [Entry(e, 10 * (e + 1), {}, train_seconds=s) for e, s in seconds]
        return result(method, 0.5, 0.9, seed, history=history)

    table = overview(
        runs(
            timed("pl", 0, enumerate([9.0, 1.0])),
            timed("vat", 0, enumerate([1.0, 3.0])),
            timed("pl", 1, enumerate([9.0, 2.0])),
            timed("vat", 1, enumerate([1.0, 6.0])),
            timed("orca", 7, enumerate([1.0, 1.0])),  # no reference with this seed
        ),
        cost_of="pl",
    )
    assert lines(table)[0].endswith("| step / pl |")
    assert [line.split(" | ")[-1] for line in lines(table)[2:5]] == [
        "1.00 |",
        "3.00 |",
        "— |",
    ]


def test_the_best_is_bold_and_the_second_underlined_in_each_block():
    found = [("pl", 0.7, "{}"), ("rpl", 0.8, "<u>{}</u>"), ("upsilon", 0.9, "**{}**")]
    more = [result("pl", 0.5, 0.1, fields={"model.width": 7})]
    table = overview(runs(*(result(m, 0.5, a) for m, a, _ in found), *more))
    for line, (_, accuracy, mark) in zip(lines(table)[2:], found, strict=False):
        assert line.endswith(f"| {mark.format(f'{100 * accuracy:.2f}')} |")
    assert lines(table)[5].endswith("| 10.00 |")


def test_a_baseline_of_another_ratio_stands_where_it_was_not_run():
    table = overview(runs(desk("baseline", 1.0, 0.6), desk("pl", 0.5, 0.7)))
    assert "| CIFAR-10 (6/4) | baseline | <u>60.00</u> | 60.00 |" in lines(table)
    assert "its runs at another stand" in lines(table)[-1]


def test_less_is_better_for_some_metrics():
    few, many = (desk(m, 0.5, 0.6) for m in ("upsilon", "pl"))  # 20 % and 70 %
    table = overview(runs(few, many), MEASURES["ood_share"])
    assert lines(table)[2:4] == [
        "| CIFAR-10 (6/4) | upsilon | **20.00** |",
        "| CIFAR-10 (6/4) | pl | <u>70.00</u> |",
    ]


def test_labels_are_those_of_the_last_refresh():
    first, last = (Labels(9, 9, per_class, 0) for per_class in (7, 3))
    entries = [Entry(i, i, {}, labels=one) for i, one in enumerate((first, last), 1)]
    table = overview(
        runs(desk("rpl", 0.5, 0.6, history=entries)), MEASURES["per_class"]
    )
    assert lines(table)[2] == "| CIFAR-10 (6/4) | rpl | 3.0 |"
