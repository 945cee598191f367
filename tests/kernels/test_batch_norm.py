import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upsilon_jax.kernels.batch_norm import batch_norm_leaky_relu, normalize_leaky_relu

OPTIONS = {"epsilon": 1e-3, "slope": 0.1}


def plain(x, scale, bias, epsilon, slope):
    """The formula, left to automatic differentiation."""
    axes = tuple(range(x.ndim - 1))
    mean = jnp.mean(x, axes, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axes, keepdims=True)
    row = (1,) * (x.ndim - 1) + (-1,)
    z = (x - mean) / jnp.sqrt(variance + epsilon)
    z = z * scale.reshape(row) + bias.reshape(row)
    return jnp.where(z >= 0, z, slope * z), mean.reshape(-1), variance.reshape(-1)


def example(shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(1.5, 2.0, shape)
    scale = rng.normal(1.0, 0.3, shape[-1:])
    bias = rng.normal(0.0, 0.5, shape[-1:])
    return tuple(jnp.asarray(a, dtype) for a in (x, scale, bias))


def weighted(function, seed=1):
    """A scalar that depends on all three results, with unequal weights."""

    def scalar(*args):
        total = 0.0
        for i, y in enumerate(function(*args, **OPTIONS)):
            weight = np.random.default_rng([seed, i]).normal(size=y.shape)
            total += jnp.sum(jnp.asarray(weight, y.dtype) * jnp.sin(y))
        return total

    return scalar


SHAPES = [(6, 3), (4, 5, 2), (3, 4, 5, 7)]


@pytest.mark.parametrize("shape", SHAPES)
def test_values_against_the_formula(x64, shape):
    args = example(shape)
    for ours, ref in zip(
        batch_norm_leaky_relu(*args, **OPTIONS), plain(*args, **OPTIONS), strict=True
    ):
        np.testing.assert_allclose(ours, ref, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_against_autodiff(x64, shape):
    args = example(shape)
    ours = jax.jit(jax.grad(weighted(batch_norm_leaky_relu), (0, 1, 2)))(*args)
    ref = jax.jit(jax.grad(weighted(plain), (0, 1, 2)))(*args)
    for a, b in zip(ours, ref, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_second_order_gradient_against_autodiff(x64):
    """Reverse over reverse, as in a look-ahead step."""
    args = example((3, 4, 4, 2))

    def after_a_step(function):
        inner = weighted(function)

        def outer(*args):
            step = jax.grad(inner, (0, 1, 2))(*args)
            return inner(*(a - 0.1 * s for a, s in zip(args, step, strict=True)))

        return jax.jit(jax.grad(outer, (0, 1, 2)))(*args)

    for a, b in zip(
        after_a_step(batch_norm_leaky_relu), after_a_step(plain), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_forward_mode_is_refused():
    args = example((4, 2), np.float32)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(
            lambda x: batch_norm_leaky_relu(x, *args[1:], **OPTIONS), args[:1], args[:1]
        )


def test_leaky_slope():
    x = jnp.array([[-1.0], [2.0]])
    one, zero = jnp.ones(1), jnp.zeros(1)
    y = normalize_leaky_relu(x, zero, one, one, zero, epsilon=0.0, slope=0.1)
    np.testing.assert_allclose(y, [[-0.1], [2.0]], rtol=1e-6)


def test_given_statistics_equal_to_the_batch_give_the_same_values():
    x, scale, bias = example((8, 3, 3, 4), np.float32)
    y, mean, variance = batch_norm_leaky_relu(x, scale, bias, **OPTIONS)
    again = normalize_leaky_relu(x, mean, variance, scale, bias, **OPTIONS)
    np.testing.assert_array_equal(y, again)


@pytest.mark.parametrize("offset", [0.0, 30.0, 1e4])
def test_large_mean_loses_no_digits(offset):
    """The naive E[x²] - E[x]² in float32 is wrong by 10 at an offset of 1e4."""
    x = (offset + np.random.default_rng(0).normal(size=(64, 8, 8, 3))).astype("f4")
    one, zero = jnp.ones(3), jnp.zeros(3)
    _, mean, variance = batch_norm_leaky_relu(jnp.asarray(x), one, zero, **OPTIONS)
    np.testing.assert_allclose(
        mean, x.mean((0, 1, 2), dtype="f8"), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(variance, x.var((0, 1, 2), dtype="f8"), rtol=1e-5)


def test_constant_input_is_finite():
    x, one, zero = jnp.full((4, 5, 2), 7.0), jnp.ones(2), jnp.zeros(2)
    y, _, variance = batch_norm_leaky_relu(x, one, zero, **OPTIONS)
    np.testing.assert_array_equal(variance, 0)
    np.testing.assert_array_equal(y, 0)
    gradient = jax.grad(weighted(batch_norm_leaky_relu), (0, 1, 2))(x, one, zero)
    assert all(bool(jnp.isfinite(g).all()) for g in gradient)


def test_bfloat16_sums_in_float32():
    x, scale, bias = example((64, 16, 16, 4), np.float32)
    half = x.astype(jnp.bfloat16)
    y, mean, variance = batch_norm_leaky_relu(half, scale, bias, **OPTIONS)
    assert (y.dtype, mean.dtype, variance.dtype) == (jnp.bfloat16, "float32", "float32")
    exact = np.asarray(half, "f8")
    # 16384 terms: a bfloat16 sum would be off by several percent.
    np.testing.assert_allclose(mean, exact.mean((0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(variance, exact.var((0, 1, 2)), rtol=1e-5)
    gradient = jax.grad(
        lambda x: (
            batch_norm_leaky_relu(x, scale, bias, **OPTIONS)[0]
            .astype(jnp.float32)
            .std()
        )
    )(half)
    assert gradient.dtype == jnp.bfloat16


def test_rows_over_devices_use_the_whole_batch(rows_over_8_devices):
    x, scale, bias = example((16, 3, 3, 2), np.float32)
    run = jax.jit(jax.value_and_grad(weighted(batch_norm_leaky_relu), (0, 1, 2)))
    one = run(x, scale, bias)
    many = run(rows_over_8_devices(x), scale, bias)
    for a, b in zip(*map(jax.tree.leaves, (one, many)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)  # order of sums


def test_vmap_equals_a_loop():
    x, scale, bias = example((3, 6, 4, 2), np.float32)
    run = lambda x: batch_norm_leaky_relu(x, scale, bias, **OPTIONS)[0]
    loop = jnp.stack([run(row) for row in x])
    np.testing.assert_allclose(jax.vmap(run)(x), loop, rtol=1e-5, atol=1e-6)


def test_saves_one_array_of_the_size_of_x():
    x, scale, bias = example((32, 8, 8, 4), np.float32)
    _, pullback = jax.vjp(
        lambda *a: batch_norm_leaky_relu(*a, **OPTIONS)[0], x, scale, bias
    )
    sizes = [leaf.size for leaf in jax.tree.leaves(pullback)]
    assert sum(size == x.size for size in sizes) == 1
    assert sum(sizes) <= x.size + 10 * scale.size


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"\(4, 3\).*\(2,\)"):
        batch_norm_leaky_relu(jnp.ones((4, 3)), jnp.ones(2), jnp.ones(3), **OPTIONS)
