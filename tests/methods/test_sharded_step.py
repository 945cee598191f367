"""A step of every method on 8 devices is the step on one."""

import jax
import numpy as np
import pytest

from tests.methods.test_contract import (
    COMPOSED,
    KEY,
    PIXELS,
    SHOW_GRADIENT,
    STEPS,
    every_method,
    on_host,
    raw_batch,
    run,
)
from tests.methods.tiny import quick_jit, to_double
from upsilon_jax.methods import METHODS
from upsilon_jax.runtime.sharding import data_mesh, put_rows, replicate
from upsilon_jax.training.step import make_train_step


def assert_close_in_norm(got, want, tolerance):
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(want), strict=True
    ):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        error, size = np.linalg.norm(a - b), np.linalg.norm(b)
        assert error <= tolerance * size, (jax.tree_util.keystr(path), error / size)


def sharded_and_not(name, net, double):
    """What one step leaves behind on 8 devices, and on one."""
    this = run(name, net)
    state = this.refresh(jax.device_put(this.middle))
    state, raw = on_host(state), raw_batch(this.image, STEPS)
    if double:
        state = to_double(state)
    mesh = data_mesh(jax.devices())
    step = make_train_step(
        this.method, this.forward, SHOW_GRADIENT, PIXELS, ema_decay=0.9
    )
    sharded = quick_jit(step)(
        replicate(state, mesh), put_rows(raw, mesh), replicate(KEY, mesh)
    )
    whole = (quick_jit(step) if double else this.step)(state, raw, KEY)
    shown = lambda new, metrics: (metrics["loss"], new.opt, new.stats, new.method)
    assert len(sharded[0].step.devices()) == 8
    return shown(*sharded), shown(*whole)


# Where rows of a batch meet other rows than in BatchNorm and in means; all the others
# are slow tests.
ROWS_MEET = ("upsilon", "mixmatch", "uasd", "openmatch", "orca", "mixmatch+upsilon")
SHARDED = [
    pytest.param(name, marks=[] if name in ROWS_MEET else [pytest.mark.slow])
    for name in (*METHODS, *COMPOSED)
]


@pytest.mark.parametrize("name", SHARDED)
def test_a_step_on_8_devices_is_the_step_on_one(name):
    assert_close_in_norm(*sharded_and_not(name, "tiny", double=False), 1e-4)


@pytest.mark.slow
@every_method
def test_a_step_on_8_devices_is_the_step_on_one_in_float64(name):
    run(name, "tiny")  # in float32, outside
    with jax.enable_x64(True):
        assert_close_in_norm(*sharded_and_not(name, "tiny", double=True), 1e-9)
