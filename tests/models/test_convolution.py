"""The compiled convolution against XLA's in float64, and what happens without it."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upsilon_jax import models, native
from upsilon_jax.models import convolution
from upsilon_jax.models.convolution import convolve
from upsilon_jax.native import libraries
from upsilon_jax.types import Head

# batch, height, width, in, out: even and odd sizes, images of one pixel or row, more
# channels than a block, fewer, and no image at all
SHAPES = [
    (3, 8, 8, 16, 16),
    (2, 7, 5, 16, 48),
    (5, 1, 1, 32, 16),
    (1, 1, 9, 48, 32),
    (9, 6, 4, 80, 112),
    (0, 4, 4, 16, 16),
]

pytestmark = pytest.mark.usefixtures("native_code")


def draw(shape):
    batch, height, width, inputs, outputs = shape
    rng = np.random.default_rng(batch + 10 * height)
    normal = lambda *size: rng.standard_normal(size, np.float32)
    return (
        normal(batch, height, width, inputs),
        normal(3, 3, inputs, outputs),
        normal(batch, height, width, outputs),
    )


def compiled(x, kernel):
    return convolve(x, kernel, 1, native=True)


def plain(x, kernel):
    return convolve(x, kernel, 1)


def in_float64(function, *arrays):
    with jax.enable_x64(True):
        wide = [jnp.asarray(array, jnp.float64) for array in arrays]
        return jax.tree.map(np.asarray, function(*wide))


def assert_close(found, expected):
    """To a few roundings of the largest sum: single ones cancel arbitrarily."""
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        scale = np.abs(other).max(initial=0)
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * scale)


def value_and_gradients(function):
    def all_of(x, kernel, y_bar):
        y, vjp = jax.vjp(function, x, kernel)
        return y, *vjp(y_bar)

    return all_of


@pytest.mark.parametrize("shape", SHAPES)
def test_value_and_gradients(shape):
    arrays = draw(shape)
    found = jax.jit(value_and_gradients(compiled))(*arrays)
    assert_close(found, in_float64(value_and_gradients(plain), *arrays))


def test_gradients_of_gradients():
    """As in virtual adversarial and bi-level training."""
    arrays = draw((2, 5, 6, 16, 32))

    def second(function):
        def penalty(x, kernel, y_bar):
            _, *gradients = value_and_gradients(function)(x, kernel, y_bar)
            return sum(jnp.sum(gradient**2) for gradient in gradients)

        return jax.grad(penalty, argnums=(0, 1, 2))

    found = jax.jit(second(compiled))(*arrays)
    assert_close(found, in_float64(second(plain), *arrays))


def test_long_sums_lose_no_digits():
    """The weight gradient sums over all pixels of all images."""
    x, kernel, _ = draw((64, 32, 32, 16, 16))
    x = np.abs(x)
    gradient = lambda f: lambda x, k: jax.vjp(lambda k: f(x, k), k)[1](x)
    found = jax.jit(gradient(compiled))(x, kernel)
    assert_close(found, in_float64(gradient(plain), x, kernel))


def test_bits_do_not_depend_on_threads():
    x, kernel, y_bar = draw((64, 16, 16, 32, 32))
    run = jax.jit(value_and_gradients(compiled))
    first = run(x, kernel, y_bar)
    for _ in range(5):
        jax.tree.map(np.testing.assert_array_equal, run(x, kernel, y_bar), first)


def test_vmap():
    x, kernel, _ = draw((6, 4, 6, 16, 16))
    x, kernels = x.reshape(2, 3, 4, 6, 16), np.stack([kernel, -2 * kernel])
    found = jax.vmap(compiled)(x, kernels)
    expected = np.stack([compiled(*pair) for pair in zip(x, kernels, strict=True)])
    np.testing.assert_array_equal(found, expected)


def test_a_whole_network():
    heads = {"logits": Head(10)}
    build = partial(models.build, "wide_resnet", heads, depth=10, width=1)
    params, stats = models.initialize(build(), (16, 16, 3), seed=0)
    x = np.random.default_rng(0).standard_normal((8, 16, 16, 3), np.float32)

    def gradient(native):
        forward = models.forward_of(build(native=native))

        def loss(params):
            outputs, _ = forward(params, stats, x, None, True)
            return jax.nn.logsumexp(outputs["logits"], axis=1).mean()

        return jax.jit(jax.value_and_grad(loss))

    assert "custom_call @upsilon_jax" in gradient(True).lower(params).as_text()
    both = [jax.tree.leaves(gradient(choice)(params)) for choice in (True, False)]
    for one, other in zip(*both, strict=True):
        # Float32 both of them: rounding grows through ten layers of BatchNorm.
        scale = max(float(jnp.abs(other).max()), 1e-3)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * scale)


def test_other_platforms_have_xlas_own():
    x, kernel, y_bar = draw(SHAPES[0])
    traced = jax.jit(value_and_gradients(compiled)).trace(x, kernel, y_bar)
    calls = lambda text: re.findall(r"custom_call @upsilon_jax\.(\w+)", text)
    text = traced.lower(lowering_platforms=("cpu",)).as_text()
    assert sorted(calls(text)) == [
        "winograd_convolve",
        "winograd_convolve",
        "winograd_weight_gradient",
    ]
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert not calls(text) and text.count("stablehlo.convolution") == 3


@pytest.mark.parametrize(
    "shape, stride, dtype",
    [
        ((3, 3, 16, 16), 2, "float32"),
        ((1, 1, 16, 16), 1, "float32"),
        ((3, 3, 3, 16), 1, "float32"),
        ((3, 3, 16, 10), 1, "float32"),
        ((3, 3, 16, 0), 1, "float32"),
        ((3, 3, 16, 16), 1, "bfloat16"),
    ],
)
def test_what_does_not_suit_is_left_to_xla(shape, stride, dtype):
    x, kernel = jnp.ones((1, 4, 4, shape[2]), dtype), jnp.ones(shape, dtype)
    text = (
        jax.jit(lambda x, k: convolve(x, k, stride, native=True))
        .lower(x, kernel)
        .as_text()
    )
    assert "custom_call" not in text and "stablehlo.convolution" in text


@pytest.mark.parametrize("name", ["no-such-compiler", "false"])
def test_without_a_compiler_xla_takes_over(monkeypatch, caplog, name):
    monkeypatch.setenv("CXX", name)
    monkeypatch.setattr(native, "_registered", {})
    native._warn.cache_clear()
    x, kernel, _ = draw(SHAPES[0])
    found = compiled(x, kernel)
    assert name in caplog.text
    np.testing.assert_array_equal(found, plain(x, kernel))


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-mno-avx512f", "-mno-avx"])
def test_shorter_vectors(monkeypatch, option):
    """As on older processors: other sizes of registers, other blocks."""
    monkeypatch.setattr(libraries, "OPTIONS", (*libraries.OPTIONS, option))
    monkeypatch.setattr(native, "target", lambda function: f"{option}{function}")
    monkeypatch.setattr(convolution, "target", native.target)
    assert native._register("winograd")
    arrays = draw((9, 6, 5, 80, 112))
    found = jax.jit(value_and_gradients(compiled))(*arrays)
    assert_close(found, in_float64(value_and_gradients(plain), *arrays))
