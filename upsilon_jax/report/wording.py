"""In what runs differ, in a few words."""

from __future__ import annotations

import collections
import hashlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from upsilon_jax.report.published import data_title
from upsilon_jax.report.runs import Fields, Run

_LONGEST_LIST = 3  # classes that are said one by one
_FEW_FIELDS = 4  # that differ, and are all said in each row


class Wording:
    """Says of some runs in what they differ from others of their data.

    What the title of the data says, such as its classes, is not said again.
    """

    def __init__(self, runs: Sequence[Run]):
        """Looks for fields that differ among runs of one title (and method)."""
        self._of_setting = _values((data_title(run), run.setting) for run in runs)
        self._of_variant = _values(
            ((data_title(run), run.method), run.variant) for run in runs
        )

    def setting(self, run: Run) -> str:
        """'epochs 20, width 2', or nothing if all runs of its data agree."""
        return _said(run.setting, self._of_setting[data_title(run)])

    def variant(self, run: Run, without: str | None = None) -> str:
        """'num_clusters 2', or nothing if all runs of its data and method agree.

        Args:
          run: one of those that are told apart.
          without: a field that is not said.
        """
        fields = tuple(pair for pair in run.variant if pair[0] != without)
        return _said(fields, self._of_variant[data_title(run), run.method])

    def both(self, run: Run) -> str:
        """Setting and variant."""
        return ", ".join(filter(None, (self.setting(run), self.variant(run))))

    def usual(self, run: Run) -> str:
        """Where many fields differ, the values that most rows have; else nothing."""
        usual = self._usual(run)
        return _said(tuple(usual.items()), self._differing(run))

    def unusual(self, run: Run) -> str:
        """Setting and variant without what is usual."""
        usual = self._usual(run)
        fields = (*run.setting, *run.variant)
        rest = tuple(pair for pair in fields if pair not in usual.items())
        return _said(rest, self._differing(run))

    def _differing(self, run: Run) -> Mapping[str, list]:
        title = data_title(run)
        both = self._of_setting[title] | self._of_variant[title, run.method]
        return {name: values for name, values in both.items() if len(set(values)) > 1}

    def _usual(self, run: Run) -> dict[str, Any]:
        differing = self._differing(run)
        if len(differing) <= _FEW_FIELDS:
            return {}
        return {name: statistics.mode(values) for name, values in differing.items()}


def _values(fields: Iterable[tuple[Any, Fields]]) -> dict[Any, dict[str, list]]:
    """Group → field → its value in every row, in the order of their first run."""
    found: dict = collections.defaultdict(lambda: collections.defaultdict(list))
    for group, pairs in dict.fromkeys(fields):
        for name, value in pairs:
            found[group][name].append(value)
    return found


def _said(fields: Fields, values: Mapping[str, list]) -> str:
    return ", ".join(
        f"{short_name(name)} {_in_words(value, list(dict.fromkeys(values[name])))}"
        for name, value in fields
        if len(set(values.get(name, ()))) > 1
    )


def short_name(field: str) -> str:
    """'epochs' of 'train.epochs'."""
    return field.split(".", 1)[-1]


def _in_words(value: Any, others: Sequence[Any]) -> str:
    text = say_value(value)
    if sum(say_value(other) == text for other in others) > 1:
        text += f" #{hashlib.sha256(repr(value).encode()).hexdigest()[:4]}"
    return text


def say_value(value: Any) -> str:
    """A value of a config, long lists cut short."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        if len(value) > _LONGEST_LIST:
            return f"{value[0]} … {value[-1]} ({len(value)})"
        return " ".join(map(str, value))
    return str(value)
