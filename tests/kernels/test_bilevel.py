"""The second-order gradient against finite differences and against a closed form."""

import jax
import jax.numpy as jnp
import numpy as np

from upsilon_jax.kernels.batch_norm import batch_norm_leaky_relu
from upsilon_jax.kernels.bilevel import meta_gradient

RATE = 0.1


def quadratic(theta, alpha):
    return 0.5 * jnp.sum(alpha * theta**2)


def test_closed_form_on_a_quadratic():
    # θ̂ = θ (1 - η α), so ∂(½|θ̂|²)/∂α = -η θ θ̂.
    theta, alpha = jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
    outer = lambda theta: 0.5 * jnp.sum(theta**2)
    got = meta_gradient(quadratic, outer, theta, alpha, RATE)
    want = -RATE * theta * theta * (1 - RATE * alpha)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_it_vanishes_without_a_step_and_with_a_detached_inner_graph():
    theta, alpha = jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
    outer = lambda theta: jnp.sum(theta**4)
    still = meta_gradient(quadratic, outer, theta, alpha, 0.0)
    np.testing.assert_array_equal(still, 0)
    detached = lambda theta, alpha: quadratic(theta, jax.lax.stop_gradient(alpha))
    cut = meta_gradient(detached, outer, theta, alpha, RATE)
    np.testing.assert_array_equal(cut, 0)
    assert np.any(meta_gradient(quadratic, outer, theta, alpha, RATE) != 0)


def test_through_batch_norm_against_finite_differences(x64):
    rng = np.random.default_rng(0)
    x, kernel = (
        jnp.asarray(rng.normal(size=(6, 3))),
        jnp.asarray(rng.normal(size=(3, 4))),
    )
    alpha = jnp.asarray(rng.normal(size=6))

    def hidden(kernel):
        return batch_norm_leaky_relu(
            x @ kernel, jnp.ones(4), jnp.zeros(4), epsilon=1e-3, slope=0.1
        )[0]

    inner = lambda kernel, alpha: jnp.vdot(alpha, jnp.sum(hidden(kernel) ** 3, axis=1))
    outer = lambda kernel: jnp.sum(jnp.sin(hidden(kernel)))
    got = jax.jit(meta_gradient, static_argnums=(0, 1, 4))(
        inner, outer, kernel, alpha, 1e-2
    )

    def look_ahead(alpha):
        return outer(kernel - 1e-2 * jax.grad(inner)(kernel, alpha))

    h = 1e-5  # central differences in float64: an error of order h²
    steps = h * jnp.concatenate([jnp.eye(6), -jnp.eye(6)])
    values = np.asarray(jax.jit(jax.vmap(look_ahead))(alpha[None, :] + steps))
    want = (values[:6] - values[6:]) / (2 * h)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
