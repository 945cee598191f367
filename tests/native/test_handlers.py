"""The C++ functions refuse arrays whose sizes do not belong together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upsilon_jax import native

f32 = lambda *shape: np.zeros(shape, np.float32)
mask = lambda rows: np.ones(rows, bool)
labels = lambda rows: np.zeros(rows, np.int32)
ONE = np.float32(1)

M, K = 40, 6
TOP_LABEL = (labels(M), f32(M), f32(M), f32(M))
IMAGES, WEIGHTS = f32(2, 5, 4, 16), f32(3, 3, 16, 32)
OUT = f32(2, 5, 4, 32)

# (function, arguments, results), all of them as they should be.
GOOD = {
    "rows_exponents": ((f32(M, K), mask(M), ONE), f32(M, K)),
    "rows_masses": ((f32(M, K), mask(M), ONE, f32(K)), f32(K)),
    "rows_softmax": ((f32(M, K), mask(M), ONE, f32(K), ONE), f32(M, K)),
    "rows_top_label": ((f32(M, K), np.int32(K)), TOP_LABEL),
    "winograd_convolve": ((IMAGES, WEIGHTS), OUT),
    "winograd_weight_gradient": ((IMAGES, OUT), WEIGHTS),
}
# (function, arguments, results, what is said of them)
BAD = [
    ("rows_exponents", (f32(M, K), mask(M - 1), ONE), f32(M, K), "`where`"),
    ("rows_exponents", (f32(M, K), mask(M), ONE), f32(M, K - 1), "result"),
    ("rows_exponents", (f32(M), mask(M), ONE), f32(M), "rank"),
    ("rows_masses", (f32(M, K), mask(M), ONE, f32(K - 1)), f32(K), "g must be"),
    ("rows_masses", (f32(M, K), mask(M), ONE, f32(K)), f32(K - 1), "result"),
    ("rows_softmax", (f32(M, K), mask(1), ONE, f32(K), ONE), f32(M, K), "`where`"),
    ("rows_softmax", (f32(M, K), mask(M), ONE, f32(1), ONE), f32(M, K), "g must be"),
    ("rows_softmax", (f32(M, K), mask(M), ONE, f32(K), ONE), f32(K, M), "result"),
    ("rows_top_label", (f32(M, K), np.int32(0)), TOP_LABEL, "number of labels"),
    ("rows_top_label", (f32(M, K), np.int32(-1)), TOP_LABEL, "number of labels"),
    ("rows_top_label", (f32(M, K), np.int32(K + 1)), TOP_LABEL, "number of labels"),
    ("rows_top_label", (f32(M + 1, K), np.int32(K)), TOP_LABEL, "results"),
    ("rows_top_label", (f32(M, K), np.int32(K)), (*TOP_LABEL[:3], f32(1)), "results"),
    ("winograd_convolve", (IMAGES, f32(5, 5, 16, 32)), OUT, "weights"),
    ("winograd_convolve", (IMAGES, f32(3, 3, 32, 32)), OUT, "channels"),
    ("winograd_convolve", (f32(2, 5, 4, 3), f32(3, 3, 3, 32)), OUT, "multiples"),
    ("winograd_convolve", (IMAGES, f32(3, 3, 16, 10)), f32(2, 5, 4, 10), "multiples"),
    ("winograd_convolve", (f32(2, 5, 4, 0), f32(3, 3, 0, 32)), OUT, "multiples"),
    ("winograd_convolve", (IMAGES, WEIGHTS), f32(2, 5, 3, 32), "result"),
    ("winograd_weight_gradient", (IMAGES, f32(1, 5, 4, 32)), WEIGHTS, "differ in size"),
    ("winograd_weight_gradient", (IMAGES, OUT), f32(3, 3, 16, 16), "result"),
    ("winograd_weight_gradient", (IMAGES, f32(2, 5, 4, 3)), WEIGHTS, "multiples"),
]

pytestmark = pytest.mark.usefixtures("native_code")


def call(function, args, results):
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), results)
    foreign = jax.ffi.ffi_call(native.target(function), shapes)
    return jax.block_until_ready(foreign(*map(jnp.asarray, args)))


@pytest.mark.parametrize("function", GOOD)
def test_sizes_that_belong_together(function):
    call(function, *GOOD[function])


@pytest.mark.parametrize("function, args, results, words", BAD)
def test_sizes_that_do_not(function, args, results, words):
    # Which of the two depends on whether the caller or a thread of XLA ran it.
    errors = (ValueError, jax.errors.JaxRuntimeError)
    with pytest.raises(errors, match=words) as caught:
        call(function, args, results)
    assert "INVALID_ARGUMENT" in str(caught.value)


def test_every_function_is_checked():
    functions = {name for group in native.FUNCTIONS.values() for name in group}
    assert set(GOOD) == {case[0] for case in BAD} == functions
