"""Means, spreads and paired differences over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

CONFIDENCE = 0.95


class Summary(NamedTuple):
    """Values of several seeds in short."""

    mean: float | None  # None if all diverged
    std: float | None  # with n - 1; None of fewer than two
    count: int  # type: ignore[assignment]  # values; hides tuple.count
    diverged: int = 0  # runs that have none because they diverged


class Interval(NamedTuple):
    """A mean difference and its confidence interval."""

    mean: float
    low: float | None  # None of fewer than two differences
    high: float | None
    count: int  # type: ignore[assignment]  # hides tuple.count


def summarize(values: Sequence[float], diverged: int = 0) -> Summary | None:
    """Mean and standard deviation; None if there is neither a value nor a failure."""
    if not values and not diverged:
        return None
    return Summary(
        statistics.mean(values) if values else None,
        statistics.stdev(values) if len(values) > 1 else None,
        len(values),
        diverged,
    )


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Interval | None:
    """The mean of ours - theirs over the seeds that both have, with Student's interval.

        mean d ± t(0.975, n - 1) · std(d) / √n

    Args:
      ours: seed → value.
      theirs: the same of what it is compared with.
    """
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours) if seed in theirs]
    count = len(differences)
    if not count:
        return None
    mean = statistics.mean(differences)
    if count == 1:
        return Interval(mean, None, None, 1)
    from scipy.special import stdtrit  # late: only a difference needs it

    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    half = quantile * statistics.stdev(differences) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)
