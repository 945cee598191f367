"""In rows 3 and 4: clusters that need not be equally large, and rows left out."""

from __future__ import annotations

from functools import partial

import numpy as np

import upsilon_jax
from benchmarks.clustering import (
    EPSILON,
    MILD,
    NUM_ITERS,
    TOLERANCE,
    log_probs_of,
    valid,
)
from benchmarks.results import Result, compare
from benchmarks.scales import Peaked, Scale, shape_label
from benchmarks.timing import alternate, fastest
from upsilon_jax import assign, sinkhorn

RELAXATION = 1.0
MASS = 0.5
MANY_ITERS = 10 * NUM_ITERS  # next to which it is nothing to append a column


def relaxed_iterations(scale: Scale) -> list[Result]:
    """Row 3: what an iteration takes more than one to equal sizes."""
    return [
        result
        for rows, clusters in scale.sinkhorn[:1]
        for result in _iterations_at(rows, clusters, scale)
    ]


def _iterations_at(rows: int, clusters: int, scale: Scale) -> list[Result]:
    log_probs = log_probs_of(Peaked(rows, clusters, MILD))
    solve = partial(sinkhorn, log_probs, epsilon=EPSILON, num_iters=MANY_ITERS)
    relaxed = {"relaxation": RELAXATION}
    cases = {
        "relaxed": (f"λ = {RELAXATION:g}", relaxed),
        "partial": (f"λ = {RELAXATION:g}, ρ = {MASS:g}", {**relaxed, "mass": MASS}),
    }
    found = []
    for kind, (case, terms) in cases.items():
        calls = {"ours": partial(solve, **terms), "equal sizes": solve}
        times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
        label = f"{shape_label(rows, clusters)}, {case}, {MANY_ITERS} iterations"
        bound = scale.bounds[f"sinkhorn, {kind}"]
        found.append(compare(3, label, times, "equal sizes", bound))
    return found


def relaxed_balance(scale: Scale) -> list[Result]:
    """Row 4: to the same error of the cluster masses as ott-jax and POT."""
    return [_balance_at(problem, scale) for problem in scale.relaxed]


def _balance_at(problem: Peaked, scale: Scale) -> Result:
    """Peers get the number of iterations they need, as in `clustering`."""
    from benchmarks.peers import unbalanced

    log_probs, terms = log_probs_of(problem), {"relaxation": RELAXATION}
    ours = lambda: upsilon_jax.balance(
        log_probs, epsilon=EPSILON, tolerance=TOLERANCE, **terms
    )
    exact = assign(log_probs, solver="newton", epsilon=EPSILON, **terms)
    if not exact.error <= TOLERANCE / 2:
        raise AssertionError(f"no converged plan to compare with at {problem.label}")
    plan = np.asarray(exact.plan)
    # The error of a mass is at most that of mass / d_k - 1, and rounding.
    if not unbalanced.plan_error(ours(), plan) <= 2 * TOLERANCE:
        raise AssertionError(f"balance misses {TOLERANCE} at {problem.label}")
    limit = max(NUM_ITERS, scale.peer_work // log_probs.size)
    needed, error = unbalanced.iterations_needed(
        log_probs, EPSILON, RELAXATION, TOLERANCE, limit
    )
    needed, error = int(needed), float(error)
    converges = lambda peer: unbalanced.plan_error(peer(), plan) <= 2 * error
    peers, note = valid(
        unbalanced.solvers(log_probs, EPSILON, RELAXATION, needed), converges
    )
    calls = {"ours": ours, **peers}
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds, warm_up=False)
    peer = fastest(times, peers)
    return compare(
        4,
        f"{problem.label}, λ = {RELAXATION:g}",
        times,
        peer,
        scale.bounds["balance"],
        description=f"{peer}, {needed} iterations",
        note=note,
    )
