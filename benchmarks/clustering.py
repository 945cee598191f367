"""Rows 3 and 4: balanced clustering, against ott-jax and POT."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

import upsilon_jax
from benchmarks.results import Result, compare
from benchmarks.scales import Peaked, Scale, shape_label
from benchmarks.timing import alternate, contenders, fastest
from upsilon_jax import sinkhorn

EPSILON = 0.05
NUM_ITERS = 32
TOLERANCE = 1e-4
# Spread of the logits where every peer's plain float32 arithmetic still works.
MILD = 1.0
# So much lower a logit, no row prefers the cluster: at ε = 0.05 a factor of e^-200.
RARE = 10.0
BEYOND_CACHES = 2**26  # floats, 256 MiB


def log_probs_of(problem: Peaked) -> jax.Array:
    """[M, K] log softmax of normal logits times the problem's spread."""
    shape = (problem.rows, problem.clusters)
    logits = problem.spread * jax.random.normal(jax.random.key(0), shape)
    if problem.rare:
        logits = logits.at[:, 0].add(-RARE)
    return jax.nn.log_softmax(logits)


def memory_pass(size: int) -> tuple[Callable[[], object], float]:
    """A call that reads memory on all cores; `size` floats take so much of its time."""
    import torch

    return torch.ones(BEYOND_CACHES).sum, size / BEYOND_CACHES


def sinkhorn_against_ott_and_pot(scale: Scale) -> list[Result]:
    """Row 3: 32 iterations, the plan compared entry by entry."""
    from benchmarks.relaxed import relaxed_iterations  # late: it imports this module

    _check_finite(min(rows for rows, _ in scale.sinkhorn))
    found = [
        result
        for rows, clusters in scale.sinkhorn
        for result in _sinkhorn_at(rows, clusters, scale)
    ]
    return found + relaxed_iterations(scale)


def _check_finite(rows: int) -> None:
    """However peaked, finite input gives a finite plan."""
    for problem in (Peaked(rows, 20, 30.0), Peaked(rows, 20, 12.0, rare=True)):
        plan = np.asarray(sinkhorn(log_probs_of(problem), epsilon=EPSILON))
        if not np.isfinite(plan).all():
            raise AssertionError(f"sinkhorn is not finite at {problem.label}")


def _sinkhorn_at(rows: int, clusters: int, scale: Scale) -> list[Result]:
    from benchmarks.peers import transport

    log_probs = log_probs_of(Peaked(rows, clusters, MILD))
    ours = lambda: sinkhorn(log_probs, epsilon=EPSILON, num_iters=NUM_ITERS)
    plan = np.asarray(ours())
    # Absolute, in units of a row's mass: 32 iterations in float32.
    agrees = lambda peer: np.abs(np.asarray(peer()) - plan).max() * rows < 1e-3
    peers, wrong = valid(transport.solvers(log_probs, EPSILON, NUM_ITERS), agrees)
    read, part = memory_pass(log_probs.size)
    calls = {"ours": ours, **peers, "memory": read}
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    times["memory"] = [NUM_ITERS * part * seconds for seconds in times["memory"]]
    label, bounds = shape_label(rows, clusters), scale.bounds
    return [
        compare(3, label, times, fastest(times, peers), bounds["sinkhorn"], note=wrong),
        compare(
            3,
            f"{label}, share of memory bandwidth",
            times,
            "memory",
            bounds["sinkhorn bandwidth"],
            description="one read of [M, K] an iteration",
        ),
    ]


def valid(
    solvers: dict[str, Callable], agrees: Callable[[Callable], bool]
) -> tuple[dict[str, Callable], str]:
    """The peers with the right result that are in the race; a note on the others."""
    right = {name: call for name, call in solvers.items() if agrees(call)}
    wrong = [name for name in solvers if name not in right]
    if not right:
        raise AssertionError("no peer agrees with ours")
    note = f"inaccurate or NaN here: {', '.join(wrong)}" if wrong else ""
    return contenders(right), note


def balance_against_ott_and_pot(scale: Scale) -> list[Result]:
    """Row 4: to the same error of the cluster masses, however peaked."""
    from benchmarks.relaxed import relaxed_balance

    found = [_balance_at(problem, scale) for problem in scale.balance]
    return found + relaxed_balance(scale)


def _balance_at(problem: Peaked, scale: Scale) -> Result:
    """Peers get the number of iterations they need, so they never check an error.

    Where that is more than `scale.peer_work` allows they stop early, and the ratio is a
    lower bound.
    """
    from benchmarks.peers import transport

    log_probs = log_probs_of(problem)
    ours = lambda: upsilon_jax.balance(log_probs, epsilon=EPSILON, tolerance=TOLERANCE)
    # A float32 plan sums to its column masses only up to rounding.
    if not transport.mass_error(ours()) <= 1.1 * TOLERANCE:
        raise AssertionError(f"balance misses {TOLERANCE} at {problem.label}")
    limit = max(NUM_ITERS, scale.peer_work // log_probs.size)
    needed, error = transport.iterations_needed(log_probs, EPSILON, TOLERANCE, limit)
    needed, error = int(needed), float(error)
    converges = lambda peer: transport.mass_error(peer()) <= 2 * error
    peers, note = valid(transport.solvers(log_probs, EPSILON, needed), converges)
    calls = {"ours": ours, **peers}
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds, warm_up=False)
    peer = fastest(times, peers)
    if error > TOLERANCE:
        stopped = f"peers stopped after {needed} iterations at an error of {error:.1g}"
        note = "; ".join(filter(None, (f"lower bound: {stopped}", note)))
    return compare(
        4,
        problem.label,
        times,
        peer,
        scale.bounds["balance"],
        description=f"{peer}, {needed} iterations",
        note=note,
    )
