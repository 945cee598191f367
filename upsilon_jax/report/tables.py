"""The tables of the paper by name, each with our runs beside the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from upsilon_jax.errors import ConfigError
from upsilon_jax.report.arrange import PaperTable, by_data, by_measure, by_ratio
from upsilon_jax.report.layout import Table
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.runs import Run

_CIFAR10 = ("cifar10",)

TABLES: Mapping[str, PaperTable] = {
    "strategies": PaperTable(
        "E4",
        "Labels for foreign images whose truth is known, all of D_u foreign",
        by_data,
        ("cifar10", "svhn", "cifar100", "tin", "imagenet100"),
        ("baseline", "re_assigned", "open_set", "oracle"),
        ratios=(1.0,),
    ),
    "compare": PaperTable(
        "E7",
        "The Υ-Model and its rivals",
        by_ratio,
        ("cifar100", "tin", "imagenet100"),
        ("pl", "uasd", "ds3l", "upsilon", "orca", "openmatch", "baseline", "oracle"),
        also=("pi_model", "mean_teacher", "vat"),
        unranked=("oracle",),
    ),
    "ablation": PaperTable(
        "E8",
        "What the parts of the Υ-Model do",
        by_ratio,
        _CIFAR10,
        ("pl", "rpl", "upsilon_k1", "sec", "upsilon", "baseline"),
    ),
    "imbalanced_ood": PaperTable(
        "E10",
        "Foreign classes of unequal size",
        by_ratio,
        ("cifar10_imbalanced",),
        ("pl", "upsilon"),
        also=("baseline",),
        ratios=(0.25, 0.5, 0.75, 1.0),
        imbalanced=True,
    ),
    "uncertainty": PaperTable(
        "E11",
        "Other remedies for imbalance and other scores",
        by_ratio,
        _CIFAR10,
        ("pl", "pl_reweight", "upsilon_ent", "upsilon_sd", "upsilon"),
        also=("baseline",),
        ratios=(0.25, 0.5, 0.75, 1.0),
    ),
    "imbalance": PaperTable(
        "E13",
        "How unevenly a supervised network labels D_u",
        by_measure,
        ("cifar10", "cifar10_5_5", "svhn", "cifar100", "tin"),
        ("baseline",),
    ),
    "fixmix": PaperTable(
        "E15",
        "FixMatch and MixMatch, with the paper's augmentation and RandAugment",
        by_ratio,
        ("cifar10", "cifar10_randaug"),
        ("mixmatch", "pl", "fixmatch", "upsilon", "baseline"),
    ),
}


def paper_table(name: str, runs: Sequence[Run], metric: str = "accuracy") -> Table:
    """A table of the paper, with those of the runs that belong to it.

    Args:
      name: a key of TABLES.
      runs: any, or none at all.
      metric: a key of MEASURES; published numbers are shown where they are of it.

    Raises:
      ConfigError: the table cannot show this metric.
    """
    table, measure = TABLES[name], MEASURES[metric]
    if table.has_own_metrics and metric != "accuracy":
        raise ConfigError(
            f"the table {name} has metrics of its own; leave out --metric"
        )
    return table.arrange(table, [run for run in runs if table.takes(run)], measure)
