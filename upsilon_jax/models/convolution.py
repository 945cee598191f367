"""Convolution of images in NHWC layout."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.native import available, target

# Channels come in multiples of the longest vector register.
_LANES = 16


def convolve(
    x: jax.Array, kernel: jax.Array, stride: int, *, native: bool = False
) -> jax.Array:
    """[B, H, W, in] * [k, k, in, out] -> [B, ⌈H/stride⌉, ⌈W/stride⌉, out], "SAME".

    With `native`, 3×3 convolutions in float32 are computed on a CPU by
    `native/winograd.cc`, where that can be compiled: two to four times as fast, and the
    same up to rounding. For programs on one device, since XLA cannot divide the work
    of a foreign function among several. Reverse mode only, but any number of times.
    """
    if native and stride == 1 and _suits(x, kernel) and available("winograd"):
        return _winograd(x, kernel)
    return _convolve(x, kernel, stride)


def _convolve(x, kernel, stride=1):
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def _suits(x, kernel):
    *size, inputs, outputs = kernel.shape
    whole = all(n > 0 and n % _LANES == 0 for n in (inputs, outputs))
    return x.dtype == kernel.dtype == jnp.float32 and size == [3, 3] and whole


@jax.custom_vjp
def _winograd(x, kernel):
    """3×3, stride 1; programs for other platforms than the CPU have XLA's own."""
    shape = (*x.shape[:3], kernel.shape[3])
    return jax.lax.platform_dependent(
        x, kernel, cpu=_call("winograd_convolve", shape), default=_convolve
    )


@jax.custom_vjp
def _winograd_weight_gradient(x, y_bar):
    """[3, 3, in, out] gradient with respect to the kernel, linear in both arguments."""
    shape = (3, 3, x.shape[3], y_bar.shape[3])
    zeros = jnp.zeros(shape, x.dtype)
    return jax.lax.platform_dependent(
        x,
        y_bar,
        cpu=_call("winograd_weight_gradient", shape),
        default=lambda x, y_bar: jax.vjp(lambda k: _convolve(x, k), zeros)[1](y_bar)[0],
    )


def _call(function, shape):
    result = jax.ShapeDtypeStruct(shape, jnp.float32)
    return jax.ffi.ffi_call(target(function), result, vmap_method="sequential")


def _mirrored(kernel):
    """The kernel that carries gradients of the outputs back to the inputs."""
    return kernel[::-1, ::-1].swapaxes(2, 3)


def _keep(function):
    return lambda *args: (function(*args), args)


def _with_derivatives(function, backward):
    """Jitted, both passes are traced once for every shape and not for every layer."""
    function.defvjp(jax.jit(_keep(function)), jax.jit(backward))


# The two are each other's derivatives, so that both can be differentiated again.
_with_derivatives(
    _winograd,
    lambda saved, y_bar: (
        _winograd(y_bar, _mirrored(saved[1])),
        _winograd_weight_gradient(saved[0], y_bar),
    ),
)
_with_derivatives(
    _winograd_weight_gradient,
    lambda saved, kernel_bar: (
        _winograd(saved[1], _mirrored(kernel_bar)),
        _winograd(saved[0], kernel_bar),
    ),
)
