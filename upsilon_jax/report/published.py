"""The numbers of the paper's seven tables, as printed (`published.csv`).

Columns: `experiment` as `docs/paper_map.md` numbers them; `benchmark`; `method`;
`mismatch`, empty where one number stands for all; `metric`; `value`, which may be
"diverge" or "-" (not finished); `std`; and `difference` to the baseline, where the
paper prints one.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
import io
from typing import NamedTuple

from upsilon_jax.report.runs import Run


class Published(NamedTuple):
    """A cell of a table of the paper, as printed."""

    experiment: str
    benchmark: str
    method: str
    mismatch: float | None
    metric: str
    value: str
    std: str
    difference: str

    @property
    def number(self) -> float | None:
        """The value, if it is one."""
        return float(self.value) if self.value[0].isdigit() else None


class Benchmark(NamedTuple):
    """A data set of the paper with a choice of classes."""

    title: str
    config: str  # the name of its config
    data: str
    id_classes: tuple[str, ...]
    augmentation: str = "paper"
    ood_imbalance: float = 1.0


# As the paper calls them; the last ones are not in it.
TITLES = {
    "baseline": "Baseline",
    "pl": "PL",
    "pl_reweight": "PL-Reweight",
    "rpl": "RPL",
    "upsilon_k1": "RPL + SEC, K = 1",
    "sec": "SEC without RPL",
    "upsilon": "Υ-Model",
    "upsilon_ent": "Υ-Model (Ent)",
    "upsilon_sd": "Υ-Model (SD)",
    "pi_model": "Π-Model",
    "mean_teacher": "Mean Teacher",
    "vat": "VAT",
    "mixmatch": "MixMatch",
    "fixmatch": "FixMatch",
    "uasd": "UASD",
    "ds3l": "DS³L",
    "openmatch": "OpenMatch",
    "orca": "ORCA",
    "re_assigned": "Re-Assigned",
    "open_set": "Open-Set",
    "oracle": "Oracle",
    "softmatch": "SoftMatch",
    "freematch": "FreeMatch",
    "iomatch": "IOMatch",
    "ssb": "SSB",
    "dac": "DAC",
}

_ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
_CIFAR10 = Benchmark("CIFAR-10 (6/4)", "cifar10", "cifar10", _ANIMALS)
_numbered = lambda count: tuple(str(number) for number in range(count))

BENCHMARKS = {
    "cifar10": _CIFAR10,
    "cifar10_randaug": _CIFAR10._replace(
        title="CIFAR-10 (6/4), RandAugment", augmentation="randaug"
    ),
    "cifar10_imbalanced": _CIFAR10._replace(
        title="CIFAR-10 (6/4), imbalanced OOD",
        config="cifar10_imbalanced",
        ood_imbalance=10.0,
    ),
    "cifar10_5_5": Benchmark(
        "CIFAR-10 (5/5)",
        "cifar10_5_5",
        "cifar10",
        ("airplane", "automobile", "bird", "cat", "deer"),
    ),
    "svhn": Benchmark("SVHN (6/4)", "svhn", "svhn", _numbered(6)),
    "cifar100": Benchmark("CIFAR-100 (50/50)", "cifar100", "cifar100", _numbered(50)),
    "tin": Benchmark("Tiny ImageNet (100/100)", "tin", "tiny_imagenet", _numbered(100)),
    "imagenet100": Benchmark(
        "ImageNet100 (50/50)", "imagenet100", "imagenet100", _numbered(50)
    ),
}


def benchmark_of(run: Run) -> str | None:
    """The key of the benchmark that a run is of, at whatever size; None if of none."""
    setting = dict(run.setting)
    ours = tuple(
        setting.get(f"data.{field}")
        for field in ("name", "id_classes", "augmentation", "ood_imbalance")
    )
    for name, benchmark in BENCHMARKS.items():
        if ours == benchmark[2:]:
            return name
    return None


def data_title(run: Run) -> str:
    """The benchmark that a run is of, else the name of its data."""
    key = benchmark_of(run)
    return BENCHMARKS[key].title if key else run.data


@functools.cache
def published() -> tuple[Published, ...]:
    """Every cell of the paper's tables, in their order."""
    file = importlib.resources.files(__package__) / "published.csv"
    cells = []
    for row in csv.DictReader(io.StringIO(file.read_text("utf-8"), newline="")):
        ratio = row.pop("mismatch")
        cells.append(Published(mismatch=float(ratio) if ratio else None, **row))
    return tuple(cells)


def find_published(
    experiment: str,
    benchmark: str | None,
    method: str,
    mismatch: float | None,
    metric: str = "accuracy",
) -> Published | None:
    """The paper's number for a cell; the one for all ratios where there is but one."""
    for cell in published():
        if cell[:3] == (experiment, benchmark, method) and cell.metric == metric:
            if cell.mismatch in (None, mismatch):
                return cell
    return None


def published_curve(
    benchmark: str | None, method: str, metric: str = "accuracy"
) -> dict[float | None, float]:
    """Mismatch → the paper's number, of the first of its tables that has the method.

    The key None stands for all ratios.
    """
    cells = [
        cell
        for cell in published()
        if (cell.benchmark, cell.method, cell.metric) == (benchmark, method, metric)
        and cell.number is not None
    ]
    by_ratio = [cell for cell in cells if cell.experiment != "E4"]  # at 100 % only
    chosen = (by_ratio or cells)[:1]
    return {
        cell.mismatch: cell.number
        for cell in cells
        if cell.experiment == chosen[0].experiment and cell.number is not None
    }
