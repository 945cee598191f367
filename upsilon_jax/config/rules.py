"""The kinds of rules that fields follow."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from upsilon_jax.methods.selection import AUTO

MOST_COUNT = 2**31 - 1  # steps, images and seeds are counted in int32
_MOST_NUMBER = 3.4e38  # beyond it a float32 is infinite


class Rule(NamedTuple):
    """What a field may be."""

    holds: Callable[[Any], bool]
    allowed: Callable[[], str]  # a function: some names are costly to import


def one_of(names: Collection[Any] | Callable[[], Collection[Any]]) -> Rule:
    """One of the names, or of the keys of a table; a function is asked when needed."""
    known = names if callable(names) else lambda: names
    return Rule(
        lambda value: value in known(), lambda: f"one of {', '.join(map(str, known()))}"
    )


def at_least(least: float) -> Rule:
    """A number that float32 has, not below `least`."""
    return Rule(
        lambda value: least <= value <= _MOST_NUMBER,
        lambda: f"a number ≥ {least:g}, at most {_MOST_NUMBER:g}",
    )


def whole(least: int, most: int = MOST_COUNT) -> Rule:
    """A whole number, neither below `least` nor above `most`."""
    return Rule(
        lambda value: type(value) is int and least <= value <= most,
        lambda: f"a whole number ≥ {least}, at most {most}",
    )


def between(low: float, high: float) -> Rule:
    """A number from `low` to `high`, both included."""
    return Rule(lambda value: low <= value <= high, lambda: f"in [{low:g}, {high:g}]")


def number(rule: Rule, *, auto: bool) -> Rule:
    """A number that follows the rule, or with `auto` also that word.

    For fields that may be either: ml_collections lets them have any type.
    """

    def holds(value: Any) -> bool:
        if isinstance(value, str):
            return auto and value == AUTO
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and rule.holds(value)

    word = f"{AUTO!r} or " if auto else ""
    return Rule(holds, lambda: word + rule.allowed())


POSITIVE = Rule(
    lambda value: 0 < value <= _MOST_NUMBER,
    lambda: f"a number > 0, at most {_MOST_NUMBER:g}",
)
FRACTION = between(0, 1)
DECAY = Rule(lambda value: 0 <= value < 1, lambda: "in [0, 1)")
