"""The experiment on settings for one's own data, without its training."""

import pathlib

import pytest

from benchmarks.own_data import HEAPS, make_config
from benchmarks.own_data_runs import Row, add_row, read_rows, table

NOWHERE = pathlib.Path("none.npz")
RUN = Row(
    heap="digits-3-7",
    setting="pretrain=300",
    foreign=0.5,
    seed=100,
    steps=900,
    pretrain_steps=300,
    clusters=2,
    gamma=0.47,
    accuracy=0.9,
    auroc=0.8,
    most_foreign=1.0,
    known_on_clusters=0.25,
    estimate=0.7,
    highest_n=3,
    last_n=0,
    last_m=200,
    kinds_seen=2,
)


def test_runs_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "results" / "runs.csv"
    rows = [RUN, RUN._replace(seed=101, gamma=0, accuracy=0.80004, setting="")]
    assert read_rows(path) == []
    for row in rows:
        add_row(path, row)
    assert read_rows(path) == [RUN, rows[1]._replace(accuracy=0.8)]


def test_a_line_of_the_table_is_a_mean_over_runs():
    others = [RUN._replace(seed=101, accuracy=0.8), RUN._replace(setting="")]
    *_, default, mean = table([RUN, *others]).splitlines()
    assert "| as suggested | 900, 300 | 2 | 0.47 | 1 | 90 |" in default
    assert (
        "| pretrain=300 | 900, 300 | 2 | 0.47 | 2 | 85 | 0.8 | 100 | 25 | 0.2" in mean
    )


@pytest.mark.parametrize(
    ("setting", "pretrain_epochs", "num_clusters", "gamma"),
    [
        ("", None, None, None),
        ("pretrain=1/8 K=2C/3 margin=0.14", 7, 4, 0.307),
        ("pretrain=300 K=C margin=0.05", 20, 6, 0.217),
        ("pretrain=2000 K=auto", 30, "auto", None),
    ],
)
def test_a_setting_is_what_it_says(setting, pretrain_epochs, num_clusters, gamma):
    config = make_config(HEAPS["digits-6-4"], setting, 0.2, 100, NOWHERE)
    assert config.train.pretrain_epochs == pretrain_epochs
    assert config.method.num_clusters == num_clusters
    assert config.method.ood_threshold == gamma
    assert (config.data.mismatch, config.seed) == (0.2, 100)
