import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upsilon_jax.kernels.adversarial import adversarial_direction, unit_images

SHAPE = (8, 8, 3)
RNG = np.random.default_rng(0)
IMAGES = jnp.asarray(RNG.standard_normal((6, *SHAPE)), jnp.float32)
KERNEL = jnp.asarray(RNG.standard_normal((192, 5)) / np.sqrt(192), jnp.float32)


def linear(images):
    return images.reshape(images.shape[0], -1) @ KERNEL


def dense(images):
    hidden = jnp.tanh(images.reshape(images.shape[0], -1) @ KERNEL)
    return 3 * hidden @ jnp.asarray(np.tri(5), jnp.float32)


@functools.partial(jax.jit, static_argnums=0)
def linearized(net, images):
    """The Jacobian [M, T, pixels] and the softmax [M, T] of every image."""
    single = lambda flat: net(flat.reshape(1, *SHAPE))[0]
    flat = images.reshape(images.shape[0], -1)
    return jax.vmap(jax.jacrev(single))(flat), jax.nn.softmax(net(images))


def curvatures(net):
    """Hessians of KL(f(x) ‖ f(x + d)) at d = 0: Jᵀ (diag p - ppᵀ) J, in float64."""
    for jacobian, p in zip(*linearized(net, IMAGES), strict=True):
        jacobian, p = np.asarray(jacobian, np.float64), np.asarray(p, np.float64)
        yield jacobian.T @ (np.diag(p) - np.outer(p, p)) @ jacobian


# Compiled without optimisations: a test runs its programs once.
direction = jax.jit(
    adversarial_direction,
    static_argnums=0,
    static_argnames=("xi", "num_iters"),
    compiler_options={"xla_backend_optimization_level": 0},
)


def cosine(a, b):
    a, b = np.ravel(a).astype(np.float64), np.ravel(b).astype(np.float64)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_unit_images_have_norm_one_and_zero_stays_zero():
    images = jnp.concatenate([IMAGES, 1e-20 * IMAGES[:1], 0 * IMAGES[:1]])
    norms = np.linalg.norm(unit_images(images).reshape(8, -1), axis=1)
    # The guard under the root costs at most 5e-7: the largest entry is 1.
    np.testing.assert_allclose(norms[:6], 1, rtol=1e-5)
    assert norms[6] < 1e-3 and norms[7] == 0  # below the guards: no direction


@pytest.mark.parametrize(
    "net, xi, cosine_above",
    [
        (linear, None, 1 - 1e-6),
        (dense, None, 1 - 1e-6),
        (linear, 1e-2, 0.999),  # rounding of x + ξ d
        (dense, 1e-2, 0.999),
    ],
)
def test_one_iteration_is_the_hessian_vector_product(net, xi, cosine_above):
    assert min(cosines_with_the_exact_product(net, xi)) > cosine_above


def cosines_with_the_exact_product(net, xi):
    """Of one iteration on every image."""
    key = jax.random.key(0)
    start = unit_images(jax.random.normal(key, IMAGES.shape))
    got = direction(net, IMAGES, net(IMAGES), key, xi=xi)
    for hessian, d, found in zip(curvatures(net), start, got, strict=True):
        yield cosine(found, hessian @ np.ravel(d).astype(np.float64))


def test_the_published_xi_is_lost_in_float32():
    # ξ d is 1e-6 / √192 = 7e-8 a pixel, about the rounding of x itself: the difference
    # that is left of x + ξ d gives 0.974 on any machine, even if all that follows were
    # exact. It is not, and what it takes away depends on the order of sums, so on the
    # machine: 0.7 is left on one, less than 0.5 on another.
    assert np.mean(list(cosines_with_the_exact_product(linear, 1e-6))) < 0.98
    assert min(cosines_with_the_exact_product(linear, None)) > 1 - 1e-6


def test_many_iterations_reach_the_top_eigenvector():
    key = jax.random.key(1)
    got = direction(linear, IMAGES, linear(IMAGES), key, num_iters=20)
    for hessian, found in zip(curvatures(linear), got, strict=True):
        values, vectors = np.linalg.eigh(hessian)
        gap = (values[-2] / values[-1]) ** 20
        # Power iteration leaves gap · tan of the start's angle, here of order √192.
        assert 200 * gap**2 < 0.1
        assert abs(cosine(found, vectors[:, -1])) > 1 - 1e-5 - 200 * gap**2


def test_a_constant_network_has_no_direction():
    net = lambda images: jnp.zeros((images.shape[0], 5))
    got = direction(net, IMAGES, net(IMAGES), jax.random.key(0))
    np.testing.assert_array_equal(got, 0)


def test_images_do_not_see_each_other():
    key = jax.random.key(0)
    whole = direction(dense, IMAGES, dense(IMAGES), key)
    changed = IMAGES.at[3:].multiply(-2)
    part = direction(dense, changed, dense(changed), key)
    np.testing.assert_allclose(part[:3], whole[:3], rtol=1e-5, atol=1e-6)


def test_no_gradient_passes_through_the_direction():
    def total(scale):
        net = lambda images: scale * dense(images)
        return jnp.sum(
            adversarial_direction(net, IMAGES, net(IMAGES), jax.random.key(0))
        )

    assert jax.jit(jax.grad(total))(1.0) == 0
