"""The sixteen experiments as data: E1 to E16, at the paper's scale and at smaller ones.

At desk scale CIFAR-10 has 16×16 pixels, a narrow network (`configs/cifar10_desk.py`)
and fewer seeds; what is compared is the same. Other data sets are left to the paper's
scale. The ablation has handwritten digits, too, whose runs are a minute each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)
TEN, FIVE, THREE, TWO = (tuple(range(count)) for count in (10, 5, 3, 2))

ABLATION = ("baseline", "pl", "rpl", "upsilon_k1", "sec", "upsilon")
BY_CLUSTERS = ("baseline", "pl", "rpl", "upsilon_k1", "upsilon")
STRATEGIES = ("baseline", "re_assigned", "open_set", "oracle")
CONSISTENCY = ("baseline", "pl", "pi_model", "mean_teacher", "vat", "upsilon")
MISMATCHED = ("baseline", "uasd", "ds3l", "upsilon")
COMPARED = ("baseline", "pl", "uasd", "ds3l", "upsilon", "orca", "openmatch", "oracle")
FIXMIX = ("baseline", "mixmatch", "pl", "fixmatch", "upsilon")
UNCERTAINTY = ("pl", "pl_reweight", "upsilon_ent", "upsilon_sd", "upsilon")

# Fields of a config that experiments change.
RANDAUG: Mapping[str, Any] = {"data.augmentation": "randaug"}
FIRST_FIVE: Mapping[str, Any] = {
    "data.id_classes": ("airplane", "automobile", "bird", "cat", "deer"),
    "data.ood_classes": ("rest",),
}
RANDOM_CLASSES: Mapping[str, Any] = {
    "data.id_classes": ("random:6",),
    "data.ood_classes": ("rest",),
}

_DESK, _CIFAR10 = "cifar10_desk", "cifar10"
_DATA_SETS = ("cifar10", "svhn", "cifar100", "tin", "imagenet100")


class Runs(NamedTuple):
    """A grid of runs."""

    config: str  # its name
    methods: tuple[str, ...]
    mismatch: tuple[float, ...]
    seeds: tuple[int, ...]
    fields: Mapping[str, Any] = {}  # of the config, changed
    suffix: str = ""  # of the folders' names, where `fields` change something


class Experiment(NamedTuple):
    """A table or a figure of the paper."""

    title: str
    paper: tuple[Runs, ...]
    desk: tuple[Runs, ...]  # none: its data sets are too large for a desk
    table: str | None = None  # of `python -m upsilon_jax.report`
    figures: tuple[str, ...] = ()  # likewise
    digits: tuple[Runs, ...] = ()  # handwritten digits: small, so with many seeds


def _with(runs: Runs, suffix: str, fields: Mapping[str, Any]) -> Runs:
    return runs._replace(fields=fields, suffix=suffix)


def _clusters(runs: Runs, numbers: tuple[int, ...]) -> tuple[Runs, ...]:
    return tuple(_with(runs, f"k{k}", {"method.num_clusters": k}) for k in numbers)


def _against_clusters(
    config: str, ratios: tuple[float, ...], seeds: tuple[int, ...]
) -> tuple[Runs, ...]:
    """K from 0 (RPL alone) to 32, with 1 and 4 in between, and the baseline's level."""
    usual = Runs(config, BY_CLUSTERS, ratios, seeds)
    own = usual._replace(methods=("upsilon",))
    return (usual, *_clusters(own, (2, 8, 16, 32)))


def _solvers(runs: Runs, numbers: tuple[int, ...]) -> tuple[Runs, ...]:
    """By iterations of Sinkhorn-Knopp, and run to convergence."""
    some = (_with(runs, f"iters{n}", {"method.num_iters": n}) for n in numbers)
    return (*some, _with(runs, "newton", {"method.solver": "newton"}))


def _random_classes(config: str, seeds: tuple[int, ...]) -> Runs:
    """Pre-trained networks on classes that the seed draws, half of D_u foreign."""
    runs = Runs(config, ("baseline",), (0.5,), seeds)
    return _with(runs, "random", RANDOM_CLASSES)


def _imbalanced(runs: Runs) -> Runs:
    return _with(runs, "lt10", {"data.ood_imbalance": 10.0})


def _randaug(runs: Runs) -> Runs:
    return _with(runs, "randaug", RANDAUG)


def _first_five(runs: Runs) -> Runs:
    return _with(runs, "5_5", FIRST_FIVE)


def _on(
    names: tuple[str, ...], methods: tuple[str, ...], ratios: tuple[float, ...]
) -> tuple[Runs, ...]:
    return tuple(Runs(name, methods, ratios, FIVE) for name in names)


_PRETRAINED = Runs(_DESK, ("baseline",), (0.5,), THREE)


def _maps(runs: Runs, numbers: tuple[int, ...]) -> tuple[Runs, ...]:
    """Re-Assigned by further random maps of OOD to ID classes: the best one counts."""
    only = runs._replace(methods=("re_assigned",))
    return tuple(_with(only, f"map{n}", {"method.assignment_seed": n}) for n in numbers)


EXPERIMENTS: Mapping[str, Experiment] = {
    "E1": Experiment(
        "pseudo-labels of a pre-trained network on ID and OOD images (Fig. 2)",
        (Runs(_CIFAR10, ("baseline",), (0.5,), FIVE),),
        (_PRETRAINED,),
        figures=("histograms",),
    ),
    "E2": Experiment(
        "vanilla pseudo-labeling against the share of foreign images (Fig. 3a)",
        (Runs(_CIFAR10, ("baseline", "pl"), RATIOS, FIVE),),
        (Runs(_DESK, ("baseline", "pl"), RATIOS, THREE),),
        figures=("ratio",),
    ),
    "E3": Experiment(
        "where vanilla pseudo-labeling sends foreign images (Fig. 3b)",
        (Runs(_CIFAR10, ("pl",), (1.0,), FIVE),),
        (Runs(_DESK, ("pl",), (1.0,), FIVE),),
        figures=("confusion",),
    ),
    "E4": Experiment(
        "four ways to label foreign images (Table 1)",
        tuple(
            part
            for runs in _on(_DATA_SETS, STRATEGIES, (1.0,))
            for part in (runs, *_maps(runs, tuple(range(1, 10))))
        ),
        (Runs(_DESK, STRATEGIES, (1.0,), THREE),),
        table="strategies",
    ),
    "E5": Experiment(
        "against consistency methods (Fig. 6a, b)",
        _on(("cifar10", "svhn"), CONSISTENCY, RATIOS),
        (Runs(_DESK, CONSISTENCY, (0.0, 1.0), TWO),),
        figures=("ratio",),
    ),
    "E6": Experiment(
        "against methods for mismatched classes (Fig. 6c, d)",
        _on(("cifar10", "svhn"), MISMATCHED, RATIOS),
        (Runs(_DESK, MISMATCHED, (0.0, 1.0), TWO),),
        figures=("ratio",),
    ),
    "E7": Experiment(
        "on larger data sets (Table 2)",
        _on(("cifar100", "tin", "imagenet100"), COMPARED, RATIOS),
        (),
        table="compare",
    ),
    "E8": Experiment(
        "ablation: RPL, SEC and the number of clusters (Table 3)",
        (Runs(_CIFAR10, ABLATION, RATIOS, FIVE),),
        (
            Runs(_DESK, ABLATION, (1.0,), FIVE),
            Runs(_DESK, ABLATION, (0.0, 0.5), THREE),
            Runs(_DESK, ABLATION, (0.25, 0.75), THREE),
        ),
        table="ablation",
        figures=("ratio",),
        digits=(
            Runs("digits", ABLATION, (0.0, 0.5, 1.0), TEN),
            Runs("digits", ("upsilon",), (0.25, 0.75), TEN),
        ),
    ),
    "E9": Experiment(
        "OOD images labeled as ID, confusion, and accuracy against K (Fig. 7)",
        _against_clusters(_CIFAR10, RATIOS[1:], FIVE),
        (
            Runs(_DESK, BY_CLUSTERS, (1.0,), FIVE),
            *_against_clusters(_DESK, (0.5, 1.0), THREE),
        ),
        figures=("ood_share", "confusion", "clusters"),
    ),
    "E10": Experiment(
        "foreign classes of unequal size (Table 4)",
        (Runs("cifar10_imbalanced", ("pl", "upsilon"), RATIOS[1:], FIVE),),
        (_imbalanced(Runs(_DESK, ("baseline", "pl", "upsilon"), (1.0,), TWO)),),
        table="imbalanced_ood",
    ),
    "E11": Experiment(
        "other weights and other uncertainties (Table 5)",
        (Runs(_CIFAR10, UNCERTAINTY, RATIOS[1:], FIVE),),
        (Runs(_DESK, ("baseline", *UNCERTAINTY), (1.0,), TWO),),
        table="uncertainty",
    ),
    "E12": Experiment(
        "t-SNE of embeddings (appendix B)",
        (Runs(_CIFAR10, ("baseline", "pl", "upsilon"), (1.0,), (0,)),),
        (Runs(_DESK, ("baseline", "pl", "upsilon"), (1.0,), (0,)),),
        figures=("tsne",),
    ),
    "E13": Experiment(
        "imbalance of pseudo-labels of a pre-trained network (appendix C)",
        _on(
            ("cifar10", "cifar10_5_5", "svhn", "cifar100", "tin"), ("baseline",), (0.5,)
        ),
        (_PRETRAINED, _first_five(_PRETRAINED)),
        table="imbalance",
    ),
    "E14": Experiment(
        "the same over random choices of classes (appendix C.2)",
        (
            _random_classes(_CIFAR10, tuple(range(50))),
            _random_classes("svhn", tuple(range(50))),
            Runs("cifar10_svhn", ("baseline",), (0.5,), tuple(range(50))),
        ),
        (_random_classes(_DESK, tuple(range(10))),),
        figures=("splits",),
    ),
    "E15": Experiment(
        "FixMatch and MixMatch, with two augmentations (appendix D)",
        (
            Runs(_CIFAR10, FIXMIX, RATIOS, FIVE),
            _randaug(Runs(_CIFAR10, FIXMIX, RATIOS, FIVE)),
        ),
        (
            Runs(_DESK, ("baseline", "mixmatch", "fixmatch"), (1.0,), THREE),
            Runs(_DESK, FIXMIX, (0.0, 1.0), TWO),
            _randaug(Runs(_DESK, FIXMIX, (0.0, 1.0), TWO)),
        ),
        table="fixmix",
    ),
    "E16": Experiment(
        "accuracy and time against K and iterations (appendix F)",
        (
            Runs(_CIFAR10, ("pl", "upsilon"), (0.5,), FIVE),
            *_clusters(Runs(_CIFAR10, ("upsilon",), (0.5,), FIVE), (1, 2, 8, 16, 32)),
            *_solvers(
                Runs(_CIFAR10, ("upsilon",), (0.5,), FIVE), (1, 2, 4, 8, 16, 64, 128)
            ),
        ),
        (
            Runs(_DESK, ("pl", "upsilon"), (0.5,), THREE),
            *_clusters(Runs(_DESK, ("upsilon",), (0.5,), THREE), (1, 2, 8, 16, 32)),
            *_solvers(Runs(_DESK, ("upsilon",), (0.5,), THREE), (1, 4, 16, 128)),
        ),
        figures=("cost",),
    ),
}
