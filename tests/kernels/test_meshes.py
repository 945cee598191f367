"""The kernels on the meshes that `jax.make_mesh` makes: their axes are Explicit."""

import contextlib

import jax
import numpy as np
import pytest

from upsilon_jax import kernels
from upsilon_jax.kernels import rows

M = 800
RNG = np.random.default_rng(0)
LOGITS = (3 * RNG.standard_normal((M, 9))).astype(np.float32)
WHERE = RNG.random(M) < 0.8
LABELS = RNG.integers(-1, 6, M)
OPTIONS = {"threshold": 0.5}

# Function, first argument, and how much sums in another order may change results.
CALLS = {
    "imbalance": (lambda x, w: kernels.imbalance(x, 6, w), LABELS, 1e-6),
    "pseudo_label": (
        lambda x, w: kernels.pseudo_label(x, 4, **OPTIONS, where=w),
        LOGITS,
        0,
    ),
    "rebalance": (lambda x, w: kernels.rebalance(x, 4, **OPTIONS, where=w), LOGITS, 0),
    "sinkhorn": (lambda x, w: M * kernels.sinkhorn(x, where=w), LOGITS, 1e-4),
    "explore": (
        lambda x, w: kernels.explore(x, 4, **OPTIONS, where=w, solver="newton"),
        LOGITS,
        0,
    ),
    "assign": (lambda x, w: kernels.assign(x, where=w).potentials, LOGITS, 1e-3),
    "foreign_share": (
        lambda x, w: kernels.foreign_share(x[:, 0], x[:, 1], where=w),
        LOGITS,
        1e-5,
    ),
    "gradient of balance": (
        jax.grad(lambda x, w: (M * kernels.balance(x, where=w) ** 2).sum()),
        LOGITS / 3,
        1e-3,
    ),
}


@pytest.fixture
def mesh():
    return jax.make_mesh((8,), ("data",))


@pytest.fixture
def without_native(monkeypatch):
    """Rows in jnp; programs that were traced with C++, or now without, are dropped."""
    monkeypatch.setattr(rows, "available", lambda name: False)
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.fixture(params=["native", "without_native"])
def either_rows(request):
    if request.param != "native":
        request.getfixturevalue(request.param)


def on_one_device(name):
    function, whole, _ = CALLS[name]
    return jax.device_get(jax.jit(function)(whole, WHERE))


def agree(name, args, expected):
    function, _, atol = CALLS[name]
    found = jax.jit(function)(*args)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=atol)
    return found


def placed(name, mesh, spec):
    return jax.device_put((CALLS[name][1], WHERE), jax.NamedSharding(mesh, spec))


def test_the_axes_are_explicit(mesh):
    assert set(mesh.axis_types) == {jax.sharding.AxisType.Explicit}


def test_results_lie_as_the_rows_do(mesh):
    args = placed("pseudo_label", mesh, jax.P("data"))
    label, weight = agree("pseudo_label", args, on_one_device("pseudo_label"))
    assert label.sharding == weight.sharding == args[1].sharding
    args = placed("imbalance", mesh, jax.P("data"))
    kl, _ = agree("imbalance", args, on_one_device("imbalance"))
    assert kl.sharding.is_fully_replicated


@pytest.mark.slow
@pytest.mark.usefixtures("either_rows")
@pytest.mark.parametrize("set_mesh", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_rows_anywhere(name, set_mesh, mesh):
    expected = on_one_device(name)  # outside the mesh
    with jax.set_mesh(mesh) if set_mesh else contextlib.nullcontext():
        agree(name, placed(name, mesh, jax.P("data")), expected)
        agree(name, placed(name, mesh, jax.P()), expected)
        agree(name, (CALLS[name][1], WHERE), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_one_of_two_axes_holds_the_rows(name):
    types = (jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto)
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=types)
    agree(name, placed(name, mesh, jax.P("data")), on_one_device(name))
