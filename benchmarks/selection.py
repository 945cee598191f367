"""Row 5: rebalanced pseudo-labels, against numpy and `jnp.sort`."""

from __future__ import annotations

import jax
import numpy as np

from benchmarks.clustering import memory_pass
from benchmarks.peers import selection as peers
from benchmarks.results import Result, compare
from benchmarks.scales import Scale, shape_label
from benchmarks.timing import alternate, fastest
from upsilon_jax import rebalance

THRESHOLD = 0.95
SPREAD = 5.0  # of the logits: a good part of the rows is confident
# Rows at the threshold or at the cut may differ: rounding of the log-odds.
MAX_DIFFERENT = 1e-3


def rebalance_against_numpy_and_sort(scale: Scale) -> list[Result]:
    """Row 5."""
    return [
        result
        for rows, classes in scale.rebalance
        for result in _rebalance_at(rows, classes, scale)
    ]


def _rebalance_at(rows: int, classes: int, scale: Scale) -> list[Result]:
    logits = SPREAD * jax.random.normal(jax.random.key(0), (rows, classes))
    host = np.asarray(logits)
    numpy = {
        "numpy argmax + lexsort": lambda: peers.lexsort(host, THRESHOLD),
        "numpy partition": lambda: peers.partition(host, THRESHOLD),
    }
    sort = {"jnp.sort per class": lambda: peers.sort(logits, THRESHOLD)}
    ours = lambda: rebalance(logits, classes, threshold=THRESHOLD)
    selected = np.asarray(ours().weight) > 0
    tried = numpy | (sort if logits.size <= scale.sort_work else {})
    for name, call in tried.items():
        different = np.mean(np.asarray(call()) != selected)
        if not selected.any() or different > MAX_DIFFERENT:
            raise AssertionError(f"{name} selects {different:.1%} other rows than ours")
    read, part = memory_pass(logits.size)
    calls = {"ours": ours, **numpy, "memory": read}
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    times["memory"] = [part * seconds for seconds in times["memory"]]
    label, bounds = shape_label(rows, classes), scale.bounds
    results = [
        compare(5, label, times, fastest(times, numpy), bounds["rebalance, numpy"]),
        compare(
            5,
            f"{label}, share of memory bandwidth",
            times,
            "memory",
            bounds["rebalance bandwidth"],
            description="one read of the logits",
        ),
    ]
    if logits.size <= scale.sort_work:
        times = alternate({"ours": ours, **sort}, rounds=scale.rounds, warm_up=False)
        bound = bounds["rebalance, sort"]
        results.append(compare(5, f"{label}, sort", times, *sort, bound))
    return results
