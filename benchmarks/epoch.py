"""Rows 6, 7 and 8: what the Υ-Model and augmentation add to the steps of an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import pillow_views
from benchmarks.results import Bound, Result, compare
from benchmarks.scales import Net, Scale
from benchmarks.timing import alternate, median, quartiles
from benchmarks.training import MEAN, NUM_CLASSES, STD, make_problem, our_step
from upsilon_jax.methods import METHODS
from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.compilation import jit
from upsilon_jax.training.step import augmented, init_state, make_refresh
from upsilon_jax.types import Predictions, PseudoLabels

REFRESH_EPOCHS = 2
PAPER_OVERHEAD = "the paper reports up to 1.7×"
SPREAD = 3.0  # of the logits: some rows are confident, some fit no class


def make_refresh_call(
    num_unlabeled: int, clusters: int, iterations: int
) -> Callable[[], np.ndarray]:
    """A refresh less its forward pass: from logits [N, T] to the rows to train on."""
    method = METHODS["upsilon"](
        NUM_CLASSES, num_clusters=clusters, num_iters=iterations
    )
    mesh, key = sharding.data_mesh(), jax.random.key(0)
    shape = (num_unlabeled, NUM_CLASSES + clusters)
    logits = sharding.put_rows(SPREAD * jax.random.normal(key, shape), mesh)
    where = sharding.put_rows(jnp.ones(num_unlabeled, bool), mesh)
    outputs = Predictions({"logits": logits}, {"logits": logits[:0]})
    pseudo = method.init(key, (), num_unlabeled)
    state = init_state(_NoOptimizer, (), (), pseudo)
    refresh = jit(make_refresh(method), out_shardings=sharding.replicated(mesh))

    def call() -> np.ndarray:
        labels: PseudoLabels = refresh(state, outputs, where, key)
        return np.flatnonzero(np.asarray(labels.weight) > 0)

    if not len(call()):
        raise AssertionError("the refresh selects nothing")
    return call


class _NoOptimizer:
    """Refreshing needs no optimizer state."""

    init = staticmethod(lambda params: ())


def _overheads(
    row: int,
    cases: dict[str, tuple[int, int]],
    bound: Bound,
    scale: Scale,
) -> list[Result]:
    """1 + (refresh - forward) / (steps per refresh · step) for (K, iterations)."""
    net, num_unlabeled = scale.net, scale.num_unlabeled
    calls = {"step": our_step(make_problem(net, "paper"))} | {
        case: make_refresh_call(num_unlabeled, *setting)
        for case, setting in cases.items()
    }
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    steps = REFRESH_EPOCHS * math.ceil(num_unlabeled / net.batch)
    overhead = lambda refresh, step: 1 + refresh / (steps * step)
    return [
        Result(
            row,
            f"{case}, {steps} steps of {net.label}",
            PAPER_OVERHEAD,
            quartiles(map(overhead, times[case], times["step"])),
            bound,
            (median(times, case), steps * median(times, "step")),
        )
        for case in cases
    ]


def epoch_against_pseudo_labeling(scale: Scale) -> list[Result]:
    """Row 6: the paper's setting, K = 4 and 32 iterations."""
    cases = {"K = 4, 32 iterations": (4, 32)}
    return _overheads(6, cases, scale.bounds["epoch"], scale)


def epoch_over_settings(scale: Scale) -> list[Result]:
    """Row 7: the corners and the inside of the paper's figure."""
    cases = {
        f"K = {clusters}, {iterations} iterations": (clusters, iterations)
        for clusters in scale.clusters
        for iterations in scale.iterations
    }
    return _overheads(7, cases, scale.bounds["epoch, all settings"], scale)


def augmentation_share(scale: Scale) -> list[Result]:
    """Row 8: augmentation alone against the step that contains it, and Pillow."""
    return [
        *_augmentation_of(scale.smallest_net, "augmentation, smallest net", scale),
        *_augmentation_of(scale.net, "augmentation", scale),
    ]


def _augmentation_of(net: Net, bound: str, scale: Scale) -> list[Result]:
    problem = make_problem(net, "paper")
    step, rng, key = our_step(problem), np.random.default_rng(0), jax.random.key(0)
    program = jit(lambda raw, key: augmented(raw, problem.method, problem.pixels, key))
    images = np.concatenate([problem.batch.image, problem.batch.unlabeled])
    calls = {
        "ours": lambda: program(problem.batch, key),
        "step": step,
        "Pillow, one process": lambda: pillow_views.augment(images, rng, MEAN, STD),
    }
    _check_alike(calls["ours"]().views, calls["Pillow, one process"]())
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    percent = lambda own, step: 100 * own / step
    return [
        Result(
            8,
            net.label,
            "the step that contains it",
            quartiles(map(percent, times["ours"], times["step"])),
            scale.bounds[bound],
            (median(times, "ours"), median(times, "step")),
            unit=" %",
        ),
        compare(
            8,
            f"{net.label}, Pillow",
            times,
            "Pillow, one process",
            scale.bounds["augmentation, Pillow"],
        ),
    ]


def _check_alike(ours: jax.Array, peer: np.ndarray) -> None:
    """Draws differ; mean and deviation of the pixels agree to a few percent."""
    for statistic in (np.mean, np.std):
        expected = statistic(peer)
        difference = abs(statistic(np.asarray(ours)) - expected)
        if difference > 0.15 * np.std(peer):
            raise AssertionError(f"pixels differ: {statistic.__name__} {difference:.2}")
