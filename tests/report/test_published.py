"""Every number of the paper's tables is in `published.csv`."""

import math
import re

import pytest

from upsilon_jax.config import load_config
from upsilon_jax.methods import METHODS
from upsilon_jax.report.published import (
    BENCHMARKS,
    TITLES,
    find_published,
    published,
)
from upsilon_jax.report.tables import TABLES

# Of each table: how many values, standard deviations and differences the paper prints,
# and their sums.
PRINTED = {
    "E4": ((20, 1252.93), (0, 0), (15, 9.64)),
    "E7": ((98, 5084.33), (98, 43.49), (0, 0)),
    "E8": ((26, 2001.65), (26, 8.87), (0, 0)),
    "E10": ((8, 609.49), (0, 0), (0, 0)),
    "E11": ((19, 1461.74), (0, 0), (0, 0)),
    "E13": ((20, 440.8925), (0, 0), (0, 0)),
    "E15": ((38, 3040.864), (0, 0), (0, 0)),
}


def numbers(experiment, column):
    cells = [getattr(c, column) for c in published() if c.experiment == experiment]
    return [float(text) for text in cells if re.fullmatch(r"[-+]?[\d.]+", text)]


def test_all_368_numbers_of_the_paper_are_there():
    found = [
        numbers(experiment, column)
        for experiment in PRINTED
        for column in ("value", "std", "difference")
    ]
    assert sum(map(len, found)) == 368
    expected = [pair for printed in PRINTED.values() for pair in printed]
    assert [(len(f), round(math.fsum(f), 4)) for f in found] == expected


@pytest.mark.parametrize(
    ("where", "value", "std"),
    [
        (("E4", "svhn", "re_assigned", 1.0), "84.40", ""),
        (("E7", "cifar100", "ds3l", 1.0), "59.56", "0.57"),
        (("E7", "tin", "ds3l", 0.5), "-", ""),
        (("E7", "imagenet100", "upsilon", 0.0), "50.6", "0.19"),
        (("E7", "tin", "baseline", 0.25), "39.66", "0.52"),  # one for all ratios
        (("E8", "cifar10", "sec", 0.75), "76.38", "0.37"),
        (("E8", "cifar10", "upsilon_k1", 1.0), "77.27", "0.39"),
        (("E10", "cifar10_imbalanced", "upsilon", 0.25), "77.57", ""),
        (("E11", "cifar10", "pl_reweight", 1.0), "diverge", ""),
        (("E13", "cifar100", "baseline", None, "ratio_ood"), "213.7661", ""),
        (("E15", "cifar10_randaug", "fixmatch", 0.5), "82.367", ""),
    ],
)
def test_cells_are_as_printed(where, value, std):
    cell = find_published(*where)
    assert (cell.value, cell.std) == (value, std)


def test_names_are_those_of_the_package():
    assert {cell.method for cell in published()} <= METHODS.keys() == TITLES.keys()
    assert {cell.benchmark for cell in published()} == BENCHMARKS.keys()
    assert {cell.experiment for cell in published()} == {
        table.experiment for table in TABLES.values()
    }


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_known_by_its_config(name):
    benchmark = BENCHMARKS[name]
    data = load_config(benchmark.config, "pl").data
    assert (data.name, data.id_classes) == (benchmark.data, benchmark.id_classes)
    assert data.ood_imbalance == benchmark.ood_imbalance


def test_every_cell_of_the_paper_is_in_its_table():
    for table in TABLES.values():
        for cell in published():
            if cell.experiment == table.experiment:
                assert cell.method in table.methods
                assert cell.benchmark in table.benchmarks
                assert cell.mismatch is None or cell.mismatch in table.ratios
