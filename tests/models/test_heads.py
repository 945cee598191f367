"""The heads of a network: formulas, gradients, initial values."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.models.test_models import images, perturbed, run, tiny
from upsilon_jax.models import forward_of, initialize
from upsilon_jax.models.classifier import HeadLayers
from upsilon_jax.types import Head


def test_heads_have_their_shapes_and_formulas():
    heads = {
        "logits": Head(5),
        "open": Head((2, 3)),
        "flat": Head(4, bias=False),
        "cosine": Head(4, kind="cosine"),
    }
    module = tiny(heads)
    params, stats = perturbed(initialize(module, (8, 8, 3), seed=0))
    outputs = jax.tree.map(
        np.asarray, run(module, params, stats, images((6, 8, 8, 3)))[0]
    )
    assert set(outputs) == {*heads, "features"}
    assert "bias" not in params["head_flat"] and "bias" not in params["head_cosine"]
    h = outputs["features"]
    p = jax.tree.map(np.asarray, params)
    expected = {
        "logits": h @ p["head_logits"]["kernel"] + p["head_logits"]["bias"],
        "open": (h @ p["head_open"]["kernel"] + p["head_open"]["bias"]).reshape(
            6, 2, 3
        ),
        "flat": h @ p["head_flat"]["kernel"],
        "cosine": 10
        * (h / np.linalg.norm(h, axis=1, keepdims=True))
        @ (
            p["head_cosine"]["kernel"]
            / np.linalg.norm(p["head_cosine"]["kernel"], axis=0)
        ),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-5, atol=1e-5)


STACKED = {
    "logits": Head(5),
    "projection": Head(4, hidden=(7, 6), bias=False),
    "open": Head((2, 3)),
    "on_open": Head(2, source="open"),
    "probe": Head(5, hidden=(3,), source="projection", detach=True),
    "watcher": Head(2, detach=True),
}


def test_heads_with_hidden_layers_and_heads_on_heads_have_their_formulas():
    module = tiny(STACKED)
    params, stats = perturbed(initialize(module, (8, 8, 3), seed=0))
    outputs = jax.tree.map(
        np.asarray, run(module, params, stats, images((6, 8, 8, 3)))[0]
    )

    def layer(p, x):
        return x @ np.asarray(p["kernel"]) + np.asarray(p.get("bias", 0))

    def head(name, x):
        p, x = params[f"head_{name}"], x.reshape(6, -1)
        for number in range(1, 1 + len(STACKED[name].hidden)):
            x = layer(p[f"hidden{number}"], x)
            x = np.where(x > 0, x, 0.1 * x)
        return layer(p, x)

    h = outputs["features"]
    want = {
        "projection": head("projection", h),
        "on_open": head("on_open", outputs["open"]),
        "probe": head("probe", outputs["projection"]),
        "watcher": head("watcher", h),
    }
    assert "bias" not in params["head_projection"]
    for name, value in want.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-4)


def test_a_detached_head_sends_no_gradient_into_its_source():
    module = tiny(STACKED)
    params, stats = initialize(module, (8, 8, 3), seed=0)
    x = images((6, 8, 8, 3))

    @jax.jit
    def gradients(params):
        def loss(params, name):
            outputs, _ = forward_of(module)(params, stats, x, None, True)
            return jnp.sum(jnp.sin(outputs[name]))

        return {n: jax.grad(loss)(params, n) for n in ("probe", "watcher", "on_open")}

    found = gradients(params)
    reached = {
        name: {part for part in tree if any(map(np.any, jax.tree.leaves(tree[part])))}
        for name, tree in found.items()
    }
    assert reached == {
        "probe": {"head_probe"},
        "watcher": {"head_watcher"},
        "on_open": {"backbone", "head_open", "head_on_open"},
    }


def test_other_heads_keep_their_initial_values_beside_stacked_ones():
    few, _ = initialize(tiny({"logits": Head(5)}), (8, 8, 3), seed=0)
    many, _ = initialize(tiny(STACKED), (8, 8, 3), seed=0)
    shared = {name: many[name] for name in few}
    jax.tree.map(np.testing.assert_array_equal, few, shared)
    hidden = many["head_projection"]["hidden1"]
    assert np.std(hidden["kernel"]) > 0 and not np.any(hidden["bias"])


def test_cosine_head_is_bounded_scale_free_and_safe_at_zero():
    module = HeadLayers(Head(4, kind="cosine"))
    kernel = images((7, 4))
    features = images((9, 7), seed=1)
    z = module.apply({"params": {"kernel": kernel}}, features)
    scaled = module.apply(
        {"params": {"kernel": kernel * jnp.array([[1, 2, 3, 4.0]])}}, 5 * features
    )
    assert float(jnp.abs(z).max()) <= 10 * (1 + 1e-6)
    np.testing.assert_allclose(z, scaled, rtol=1e-5, atol=1e-5)
    loss = lambda h: module.apply({"params": {"kernel": kernel}}, h).sum()
    assert bool(jnp.isfinite(jax.grad(loss)(jnp.zeros((1, 7)))).all())
