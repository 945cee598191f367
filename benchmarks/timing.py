"""Times of alternating calls: machines are noisy, only ratios of one run count."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

Calls = Mapping[str, Callable[[], Any]]
Times = Mapping[str, list[float]]

# Worker threads of one library spin for a while after their work is done, those of
# OpenBLAS (numpy, POT) for a tenth of a second of CPU time; this lets them fall asleep
# before the next library is timed.
PAUSE = 0.12
# A core that has slept comes back to speed in tens of milliseconds, so calls that take
# less than SHORT are timed right after untimed ones, which fill AWAKE.
SHORT = 0.2
AWAKE = 0.05
MAX_ROUNDS = 100
# A peer that needs more than this multiple of the best one's time is not timed again.
OUT_OF_THE_RACE = 2.0


class Quartiles(NamedTuple):
    """Median and spread of a measured quantity."""

    low: float
    median: float
    high: float


def quartiles(values: Iterable[float]) -> Quartiles:
    """25 %, 50 % and 75 % quantiles."""
    return Quartiles(*(float(q) for q in np.percentile(list(values), (25, 50, 75))))


def alternate(
    calls: Calls,
    *,
    rounds: int,
    seconds: float = 0.0,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
    pause: float = PAUSE,
) -> dict[str, list[float]]:
    """Times every call once per round: a b c, a b c, a b c; short ones warmed up.

    Args:
      calls: name -> function without arguments; JAX results are waited for.
      rounds: how many at least.
      seconds: goes on until so many have passed: quick calls get more rounds.
      warm_up: an untimed round first, which compiles and touches memory.
      clock: what tells the time.
      pause: seconds of rest before each timed call.

    Returns:
      name -> seconds of each round.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    if warm_up:
        for call in calls.values():
            jax.block_until_ready(call())
    start, done = clock(), 0
    while done < rounds or (clock() - start < seconds and done < MAX_ROUNDS):
        for name, call in calls.items():
            time.sleep(pause)
            for _ in range(_untimed_calls(times[name][-1]) if times[name] else 0):
                jax.block_until_ready(call())
            times[name].append(once(call, clock))
        done += 1
    return times


def _untimed_calls(seconds: float) -> int:
    """Before a timed call, if one takes so long."""
    return math.ceil(AWAKE / seconds) if seconds < SHORT else 0


def once(
    call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds of one call, its result thrown away."""
    begin = clock()
    jax.block_until_ready(call())
    return clock() - begin


def speedup(times: Times, ours: str, peer: str) -> Quartiles:
    """How many times as fast ours is, pair by pair: peer / ours."""
    pairs = zip(times[peer], times[ours], strict=True)
    return quartiles(theirs / own for theirs, own in pairs)


def median(times: Times, name: str) -> float:
    """Median seconds."""
    return float(np.median(times[name]))


def fastest(times: Times, names: Iterable[str]) -> str:
    """The name with the least median."""
    return min(names, key=lambda name: median(times, name))


def contenders(calls: Calls) -> dict[str, Callable[[], Any]]:
    """The calls that could be the fastest, by one run each; they have run before."""
    times = alternate(calls, rounds=1, warm_up=False)
    best = min(seconds for (seconds,) in times.values())
    return {
        name: call
        for name, call in calls.items()
        if times[name][0] <= OUT_OF_THE_RACE * best
    }
