"""Numbers and methods in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Methods by the names that people use, and what they do with unlabeled images.
_METHODS = {
    "baseline": ("labeled images only", "It never looks at the unlabeled images."),
    "pl": (
        "plain pseudo-labeling",
        "It trains on its own confident guesses for the unlabeled images.",
    ),
    "rpl": (
        "re-balanced pseudo-labeling",
        "It trains on its own confident guesses for the unlabeled images, as many of "
        "each class.",
    ),
    "sec": (
        "semantic exploration clustering",
        "It trains on its own confident guesses for the unlabeled images, and sorts "
        "those that look foreign into groups.",
    ),
    "upsilon": (
        "the Υ-Model",
        "It trains on its own confident guesses for the unlabeled images, as many of "
        "each class, and sorts those that look foreign into groups of their own "
        "instead of forcing them into a class.",
    ),
}


def method_title(name: str) -> str:
    """What people call a method."""
    return _METHODS[name][0] if name in _METHODS else name


def method_story(name: str) -> str:
    """A sentence on what it does; empty for methods that the docs explain."""
    return _METHODS[name][1] if name in _METHODS else ""


def data_name(data: Mapping[str, Any]) -> str:
    """What people call the data of a run; one's own by their place."""
    place = data.get("labeled") or data.get("path")
    return f"your own images ({place})" if place else data["name"]


def percent(share: float | None, digits: int = 1) -> str:
    """As in 93.4 %; a share that only rounds to all or nothing is not called so."""
    if share is None or math.isnan(share):
        return "—"
    value, least = 100 * share, 10.0**-digits
    if 0 < value < least / 2:
        return f"<{least:g}\u00a0%"
    if 100 - least / 2 < value < 100:
        return f">{100 - least:g}\u00a0%"
    return f"{value:.{digits}f}\u00a0%"


def points(difference: float) -> str:
    """A difference of shares: +2.3 points."""
    return f"{100 * difference:+.1f}\u00a0points".replace("-", "−")


def count(number: int, noun: str = "", plural: str = "") -> str:
    """As in 1 image, or 1,234 images."""
    if not noun:
        return f"{number:,}"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def of_hundred(share: float) -> str:
    """A share as people count: about 93 of 100; extremes are not rounded away."""
    nearest = round(100 * share)
    if nearest == 100 and share < 1:
        return "more than 99 of 100"
    if nearest == 0 and share > 0:
        return "fewer than 1 of 100"
    return f"{'all' if share == 1 else f'about {nearest}'} of 100"


def duration(seconds: float) -> str:
    """As in 1 h 5 min, 3 min 20 s or 12 s."""
    seconds = round(seconds)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def listed(names: Sequence[str], most: int = 12) -> str:
    """As in cat, dog and cow; of many only the first."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def margin_of_error(share: float, number: int) -> float:
    """Half the width of Wilson's 95 % interval of a share of `number` images.

    z √(p(1-p)/n + z²/4n²) / (1 + z²/n),   z = 1.96
    """
    z = 1.96
    spread = math.sqrt(share * (1 - share) / number + (z / number / 2) ** 2)
    return z * spread / (1 + z * z / number)
