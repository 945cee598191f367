"""What the paper claims, C1 to C12, each as differences that runs can show.

A difference is paired by seed: the same split and the same initial weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from upsilon_jax.paper.experiments import FIRST_FIVE, RANDAUG, RANDOM_CLASSES, RATIOS
from upsilon_jax.report.published import TITLES

MORE, LESS = 1, -1


class Side(NamedTuple):
    """Runs that agree in all but the seed, and what is looked at."""

    method: str
    ratio: float = 1.0
    measure: str = "accuracy"
    fields: Mapping[str, Any] = {}  # of the config, changed


class Check(NamedTuple):
    """That `ours` is more (or less) than `theirs`."""

    ours: Side
    theirs: Side
    sign: int = MORE
    text: str = ""  # where methods and ratios do not say it


class Claim(NamedTuple):
    """A sentence of the paper; it holds if all checks do."""

    text: str
    checks: tuple[Check, ...]


def _above(ours: str, theirs: str, *ratios: float, sign: int = MORE) -> tuple:
    return tuple(Check(Side(ours, r), Side(theirs, r), sign) for r in ratios)


def _uneven(classes: str, fields: Mapping[str, Any]) -> Check:
    """Labels of a supervised network are less even on OOD images than on ID images."""
    ood, known = (
        Side("baseline", 0.5, measure, fields) for measure in ("kl_ood", "kl_id")
    )
    return Check(ood, known, text=f"KL from uniform, OOD above ID images; {classes}")


def _of_measure(
    measure: str, ours: str, theirs: str, what: str, sign: int = MORE
) -> Check:
    than = "above" if sign == MORE else "below"
    return Check(
        Side(ours, measure=measure),
        Side(theirs, measure=measure),
        sign,
        f"{what}: {TITLES[ours]} {than} {TITLES[theirs]}",
    )


def _augmented(method: str, ratio: float) -> Check:
    stronger, usual = Side(method, ratio, fields=RANDAUG), Side(method, ratio)
    text = f"{TITLES[method]} at {ratio:.0%}: RandAugment above flips and crops"
    return Check(stronger, usual, text=text)


CLAIMS: Mapping[str, Claim] = {
    "C1": Claim(
        "A supervised network labels foreign images unevenly, ID images evenly",
        (
            _uneven("six classes known", {}),
            _uneven("five classes known", FIRST_FIVE),
            _uneven("six known, drawn at random", RANDOM_CLASSES),
        ),
    ),
    "C2": Claim(
        "Pseudo-labeling sends more foreign images to one class than the baseline",
        (
            _of_measure(
                "ood_on_one", "pl", "baseline", "foreign test images on one class in %"
            ),
            _of_measure("kl_ood", "pl", "baseline", "KL from uniform, OOD images"),
        ),
    ),
    "C3": Claim(
        "Foreign images with labels of ID classes do harm",
        _above("re_assigned", "baseline", 1.0, sign=LESS),
    ),
    "C4": Claim(
        "One further class for foreign images helps, their true classes most",
        (
            *_above("open_set", "baseline", 1.0),
            *_above("oracle", "open_set", 1.0),
            *_above("oracle", "baseline", 1.0),
        ),
    ),
    "C5": Claim(
        "The Υ-Model is above the baseline whatever the share of foreign images",
        _above("upsilon", "baseline", *RATIOS),
    ),
    "C6": Claim("RPL is above PL at every share", _above("rpl", "pl", *RATIOS)),
    "C7": Claim(
        "With foreign images alone, RPL stays below the baseline; SEC mends it",
        (
            *_above("rpl", "baseline", 1.0, sign=LESS),
            *_above("upsilon", "rpl", 1.0),
        ),
    ),
    "C8": Claim(
        "Four clusters are better than one",
        _above("upsilon", "upsilon_k1", *RATIOS),
    ),
    "C9": Claim(
        "PL gives ever more foreign images the label of a class, RPL ever fewer",
        (
            _of_measure(
                "ood_labeled", "rpl", "pl", "foreign images with an ID label in %", LESS
            ),
            Check(
                Side("pl", measure="ood_labeled"),
                Side("pl", measure="ood_labeled_first"),
                text="foreign images with an ID label in %: "
                "PL at its last refresh above its first",
            ),
            Check(
                Side("rpl", measure="ood_labeled"),
                Side("rpl", measure="ood_labeled_first"),
                LESS,
                "foreign images with an ID label in %: "
                "RPL at its last refresh below its first",
            ),
        ),
    ),
    "C10": Claim(
        "The Υ-Model has its lowest accuracy in the middle: a curve like a U",
        (
            Check(Side("upsilon", 0.0), Side("upsilon", 0.5)),
            Check(Side("upsilon", 1.0), Side("upsilon", 0.5)),
        ),
    ),
    "C11": Claim(
        "FixMatch breaks down where most images are foreign, MixMatch less so",
        (
            *_above("fixmatch", "baseline", 1.0, sign=LESS),
            *_above("mixmatch", "fixmatch", 1.0),
        ),
    ),
    "C12": Claim(
        "Stronger augmentation lifts all methods",
        (
            _augmented("baseline", 1.0),
            *(
                _augmented(method, ratio)
                for method in ("pl", "mixmatch", "fixmatch", "upsilon")
                for ratio in (0.0, 1.0)
            ),
        ),
    ),
}
