import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import reference
from upsilon_jax.models import MODELS, build, forward_of, initialize
from upsilon_jax.types import Head

LOGITS = {"logits": Head(5)}


def tiny(heads=LOGITS, **kwargs):
    return build("wide_resnet", heads, **{"depth": 10, "width": 1, **kwargs})


def images(shape, seed=0, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def count(params):
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def perturbed(tree, seed=0, dtype=np.float32):
    """Values away from the symmetric initial ones; variances stay positive."""
    rng = np.random.default_rng(seed)
    move = lambda a: jnp.asarray(
        a * rng.uniform(0.5, 1.5, a.shape) + rng.uniform(0, 0.2, a.shape), dtype
    )
    return jax.tree.map(move, tree)


def run(module, params, stats, x, train=False):
    return jax.jit(forward_of(module), static_argnums=4)(params, stats, x, None, train)


@pytest.mark.parametrize("outputs", [6, 10, 100])
def test_wrn_28_2_has_the_published_number_of_parameters(outputs):
    module = build("wide_resnet", {"logits": Head(outputs)}, depth=28, width=2)
    params, _ = initialize(module, (32, 32, 3), seed=0)
    assert count(params) == 1_466_320 + 129 * outputs


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    "depth, width, shape", [(10, 1, (8, 8, 3)), (16, 2, (9, 11, 1))]
)
def test_values_against_a_numpy_network(x64, depth, width, shape, train):
    module = build("wide_resnet", LOGITS, depth=depth, width=width, dtype="float64")
    params, stats = initialize(module, shape, seed=1)
    params, stats = perturbed((params, stats), dtype=np.float64)
    x = images((3, *shape), dtype=np.float64)
    outputs, _ = run(module, params, stats, x, train)
    features = reference.wide_resnet(
        *jax.tree.map(np.asarray, (params["backbone"], stats["backbone"])),
        np.asarray(x),
        depth,
        train,
    )
    head = jax.tree.map(np.asarray, params["head_logits"])
    np.testing.assert_allclose(outputs["features"], features, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        outputs["logits"],
        features @ head["kernel"] + head["bias"],
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (13, 8, 4), (64, 64, 3)])
def test_any_image_size_and_channel_count(shape):
    module = tiny(width=2)
    params, stats = initialize(module, shape, seed=0)
    outputs = jax.eval_shape(
        lambda p, s, x: forward_of(module)(p, s, x, None, False)[0],
        params,
        stats,
        jax.ShapeDtypeStruct((2, *shape), jnp.float32),
    )
    assert outputs["features"].shape == (2, 128)
    assert outputs["logits"].shape == (2, 5)


def test_eval_does_not_mix_rows():
    module = tiny()
    params, stats = perturbed(initialize(module, (8, 8, 3), seed=0))
    x = images((6, 8, 8, 3))
    whole = run(module, params, stats, x)[0]["logits"]
    part = run(module, params, stats, x[2:3])[0]["logits"]
    # Other blocking of the same sums.
    np.testing.assert_allclose(whole[2:3], part, rtol=1e-4, atol=1e-5)


def test_eval_leaves_the_statistics_alone():
    module = tiny()
    params, stats = perturbed(initialize(module, (8, 8, 3), seed=0))
    _, after = run(module, params, stats, images((4, 8, 8, 3)))
    jax.tree.map(np.testing.assert_array_equal, after, stats)


@pytest.mark.parametrize("decay", [0.0, 0.9, 1.0])
def test_running_statistics_move_by_the_decay(decay):
    module = tiny(bn_decay=decay)
    params, stats = perturbed(initialize(module, (8, 8, 3), seed=0))
    x = images((4, 8, 8, 3))
    _, after = run(module, params, stats, x, train=True)
    stem = reference.convolve(
        np.asarray(x, "f8"), np.asarray(params["backbone"]["stem"]["kernel"], "f8"), 1
    )
    old, new = (s["backbone"]["group1_unit1"]["norm1"] for s in (stats, after))
    for name, batch in {
        "mean": stem.mean((0, 1, 2)),
        "variance": stem.var((0, 1, 2)),
    }.items():
        np.testing.assert_allclose(
            new[name], decay * old[name] + (1 - decay) * batch, rtol=1e-4, atol=1e-6
        )


def test_train_and_eval_agree_once_the_running_statistics_are_the_batch():
    module = tiny(bn_decay=0.0)
    params, stats = perturbed(initialize(module, (8, 8, 3), seed=0))
    x = images((4, 8, 8, 3))
    trained, stats = run(module, params, stats, x, train=True)
    evaluated, _ = run(module, params, stats, x)
    np.testing.assert_allclose(
        trained["logits"], evaluated["logits"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("group", [1, 2, 3])
def test_first_norm_of_every_group_matters(group):
    """Some codes feed the raw tensor to the branch, which makes this norm a no-op."""
    module = tiny(width=2)
    params, stats = initialize(module, (8, 8, 3), seed=0)
    x = images((4, 8, 8, 3))
    before = run(module, params, stats, x)[0]["logits"]
    norm = params["backbone"][f"group{group}_unit1"]["norm1"]
    norm["scale"] = norm["scale"].at[0].add(1.0)
    after = run(module, params, stats, x)[0]["logits"]
    assert float(jnp.abs(after - before).max()) > 1e-3


def test_bfloat16_computes_in_half_and_returns_float32():
    heads = {"logits": Head(5), "open": Head((2, 3))}
    half, full = tiny(heads, dtype="bfloat16"), tiny(heads)
    params, stats = initialize(half, (16, 16, 3), seed=0)
    x = images((8, 16, 16, 3))
    outputs, after = run(half, params, stats, x, train=True)
    assert {leaf.dtype.name for leaf in jax.tree.leaves((params, outputs, after))} == {
        "float32"
    }
    text = (
        jax.jit(forward_of(half), static_argnums=4)
        .lower(params, stats, x, None, True)
        .as_text()
    )
    convolutions = [
        line for line in text.splitlines() if "stablehlo.convolution" in line
    ]
    assert convolutions and all("xbf16>" in line for line in convolutions)
    reference_outputs, _ = run(full, params, stats, x, train=True)
    # bfloat16 has 8 bits: 0.4 % an operation, through ten layers.
    np.testing.assert_allclose(
        outputs["features"], reference_outputs["features"], rtol=0.1, atol=0.1
    )


def test_gradients_reach_every_parameter():
    heads = {"logits": Head(5), "open": Head((2, 3)), "cosine": Head(4, kind="cosine")}
    module = tiny(heads)
    params, stats = initialize(module, (8, 8, 3), seed=0)
    x = images((6, 8, 8, 3))

    @jax.jit
    def gradient(params):
        def loss(params):
            outputs, _ = forward_of(module)(params, stats, x, None, True)
            return sum(jnp.sum(jnp.sin(outputs[name])) for name in heads)

        return jax.grad(loss)(params)

    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient(params)):
        assert bool(jnp.any(leaf != 0)), path
        assert bool(jnp.all(jnp.isfinite(leaf))), path


def test_rows_over_devices_give_the_same_step(rows_over_8_devices):
    module = tiny()
    params, stats = initialize(module, (8, 8, 3), seed=0)
    x = images((16, 8, 8, 3))
    alone = run(module, params, stats, x, train=True)
    spread = run(module, params, stats, rows_over_8_devices(x), train=True)
    for a, b in zip(*map(jax.tree.leaves, (alone, spread)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)  # order of sums


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"name": "resnet50"}, "unknown model 'resnet50'; known: wide_resnet"),
        ({"dtype": "int8"}, "int8"),
        ({"bn_decay": 1.5}, "1.5"),
        ({"heads": {"logits": Head(0)}}, "'logits'.*0"),
        ({"heads": {"logits": Head((2, -3))}}, "'logits'"),
        ({"heads": {"logits": Head(5, kind="mlp")}}, "mlp"),
        ({"heads": {"features": Head(5)}}, "features"),
        ({"heads": {"logits": Head(5, hidden=(8, 0))}}, "'logits'.*hidden"),
        (
            {"heads": {"logits": Head(5, source="z"), "z": Head(4)}},
            "'logits': source must be one of features",
        ),
    ],
)
def test_bad_descriptions_are_refused(kwargs, message):
    kwargs = {"name": "wide_resnet", "heads": LOGITS, **kwargs}
    with pytest.raises(ValueError, match=message):
        build(**kwargs)


@pytest.mark.parametrize(
    "kwargs, message", [({"depth": 12}, "12"), ({"depth": 4}, "4"), ({"width": 0}, "0")]
)
def test_bad_sizes_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        initialize(tiny(**kwargs), (8, 8, 3), seed=0)


def test_registry():
    assert set(MODELS) == {"wide_resnet"}
