"""Row 12: several seeds in one run, against the same runs one after another."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

import upsilon_jax
from benchmarks.results import Result, compare
from benchmarks.scales import Net, Scale
from benchmarks.timing import alternate
from benchmarks.training import make_problem, our_step
from configs import digits
from upsilon_jax import runtime
from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.compilation import jit

ONE_AFTER_ANOTHER = "one after another"
TWO_CALLS = "two calls of one compiled step"


def seeds_in_one_run(scale: Scale) -> list[Result]:
    """Row 12."""
    runtime.setup()  # compiled programs on disk, as the commands have them
    return [_whole_runs(scale), _mapped_step(scale)]


def config_of(seed: int, num_seeds: int) -> ml_collections.ConfigDict:
    """A short run of the Υ-Model on the embedded digits."""
    config = digits.get_config("upsilon")
    config.seed = seed
    config.model.width = 1
    config.train.update(epochs=8, pretrain_epochs=4, num_seeds=num_seeds)
    return config


def _train(config: ml_collections.ConfigDict) -> dict:
    """Trains in a folder of its own, in silence."""
    with (
        tempfile.TemporaryDirectory() as workdir,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        return upsilon_jax.train(config, workdir)


def _whole_runs(scale: Scale) -> Result:
    """From the call to the results, with compiled programs on disk for both."""
    count = scale.num_seeds
    together = lambda: _train(config_of(0, count))["seeds"]
    apart = lambda: [_train(config_of(seed, 1)) for seed in range(count)]
    digests = [[r["params_digest"] for r in call()] for call in (together, apart)]
    if sharding.data_mesh().size == 1 and digests[0] != digests[1]:
        raise AssertionError("a seed of several ends otherwise than alone")
    calls = {"ours": together, ONE_AFTER_ANOTHER: apart}
    times = alternate(calls, rounds=scale.startup_rounds, warm_up=False)
    case = f"{count} seeds of a short run on digits"
    bound = scale.bounds["seeds"]
    return compare(12, case, times, ONE_AFTER_ANOTHER, bound)


def _mapped_step(scale: Scale) -> Result:
    """The alternative on one device that is not taken: `vmap` over two seeds."""
    net = scale.smallest_net
    steps = [our_step(make_problem(net, "none")) for _ in range(2)]
    calls = {"ours": _mapped(net), TWO_CALLS: lambda: [step() for step in steps]}
    times = alternate(calls, rounds=scale.rounds, seconds=scale.seconds)
    case = f"vmap of the step over 2 seeds, {net.label}"
    note = "below 1: on one device seeds are trained by separate calls"
    return compare(12, case, times, TWO_CALLS, scale.bounds["vmap"], note=note)


def _mapped(net: Net) -> Callable[[], np.ndarray]:
    problem = make_problem(net, "none")
    step = problem.programs.semi_supervised.__wrapped__
    program = jit(jax.vmap(step, in_axes=(0, 0, None, None)), donate_argnums=0)
    twice = lambda tree: jax.tree.map(lambda x: jnp.stack([x, x]), tree)
    state, batch = twice(problem.state()), twice(problem.batch)
    key = jax.random.key(0)

    def call() -> np.ndarray:
        nonlocal state
        state, metrics = program(state, batch, 1, key)
        return np.asarray(metrics["loss"])

    return call
