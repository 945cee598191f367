"""A network of two layers, and batches of noise, for tests of methods."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from upsilon_jax.kernels.batch_norm import (
    batch_norm_leaky_relu,
    normalize_leaky_relu,
)
from upsilon_jax.types import Batch, TrainState

IMAGE = (4, 4, 3)
BN_DECAY = 0.9
_BN = {"epsilon": 1e-3, "slope": 0.1}

softmax = functools.partial(special.softmax, axis=1)  # not JAX's


def shape_of(head):
    return (head.size,) if isinstance(head.size, int) else head.size


def network(heads, *, batch_norm=True, width=8, seed=0, image=IMAGE):
    """(forward, params, stats): dense → BatchNorm and leaky ReLU → every head.

    Without `batch_norm` rows do not see each other: tanh takes its place.
    """
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape, np.float32) / math.sqrt(shape[0])
    params = {"dense": draw(math.prod(image), width)}
    stats = {}
    if batch_norm:
        params |= {"scale": np.ones(width, np.float32), "shift": 0.1 * draw(width)}
        zero = np.zeros(width, np.float32)
        stats = {"mean": zero, "variance": zero + 1}
    widths = {"features": width}
    for name, head in heads.items():
        fan_in = widths[head.source]
        for number, hidden in enumerate(head.hidden, 1):
            params[f"{name}_hidden{number}"] = draw(fan_in, hidden)
            fan_in = hidden
        widths[name] = math.prod(shape_of(head))
        params[f"{name}_kernel"] = draw(fan_in, widths[name])
        if head.bias:
            params[f"{name}_bias"] = 0.1 * draw(widths[name])

    def features_of(params, stats, images, train):
        h = images.reshape(images.shape[0], -1) @ params["dense"]
        if not batch_norm:
            return jnp.tanh(h), stats
        affine = (params["scale"], params["shift"])
        if not train:
            moments = (stats["mean"], stats["variance"])
            return normalize_leaky_relu(h, *moments, *affine, **_BN), stats
        h, mean, variance = batch_norm_leaky_relu(h, *affine, **_BN)
        mix = lambda old, new: BN_DECAY * old + (1 - BN_DECAY) * new
        moved = {
            "mean": mix(stats["mean"], mean),
            "variance": mix(stats["variance"], variance),
        }
        return h, jax.lax.stop_gradient(moved)

    def forward(params, stats, images, key, train):
        h, stats = features_of(params, stats, images, train)
        outputs = {"features": h}
        for name, head in heads.items():
            kernel, h = params[f"{name}_kernel"], outputs[head.source]
            h = jax.lax.stop_gradient(h) if head.detach else h
            for number in range(1, len(head.hidden) + 1):
                h = jax.nn.leaky_relu(h @ params[f"{name}_hidden{number}"], 0.1)
            if head.kind == "cosine":
                unit = lambda x, axis: x / jnp.linalg.norm(x, axis=axis, keepdims=True)
                z = 10 * unit(h, 1) @ unit(kernel, 0)
            else:
                z = h @ kernel
            if head.bias:
                z += params[f"{name}_bias"][None, :]
            outputs[name] = z.reshape(z.shape[0], *shape_of(head))
        return outputs, stats

    return forward, *jax.device_put((params, stats))


def noise(method, *, num_classes, seed=0, labeled=8, unlabeled=8, of=32, image=IMAGE):
    """A batch with the views that a method asks for."""
    rng = np.random.default_rng(100 + seed)
    views = lambda names, num: rng.standard_normal(
        (len(names), num, *image), np.float32
    )
    batch = Batch(
        image=views(method.labeled_views, labeled),
        label=rng.integers(0, num_classes, labeled, np.int32),
        views=views(method.views, unlabeled),
        index=rng.permutation(of)[:unlabeled].astype(np.int32),
    )
    return jax.device_put(batch)


def setting(method, *, num_classes, batch_norm=False, step=0, hidden=None, **kwargs):
    """(forward, state, batch) for one call of a loss."""
    forward, params, stats = network(method.heads, batch_norm=batch_norm)
    batch = noise(method, num_classes=num_classes, **kwargs)
    own = method.init(jax.random.key(1), params, 32, hidden)
    return forward, TrainState(jnp.int32(step), params, stats, (), (), own), batch


# One program is faster than one operation after the other. It is compiled without
# optimisations, which take longer than they save: a test runs it once or twice.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0}
)


@functools.partial(quick_jit, static_argnums=(0, 1))
def _value(loss, forward, state, batch, key):
    return loss(forward, state.params, state, batch, key)


@functools.partial(quick_jit, static_argnums=(0, 1))
def _gradient(loss, forward, state, batch, key):
    objective = lambda params: loss(forward, params, state, batch, key)
    return jax.value_and_grad(objective, has_aux=True)(state.params)


def value(method, forward, state, batch, seed=2):
    """(loss, Aux) of a method at the state's parameters."""
    return _value(method.loss, forward, state, batch, jax.random.key(seed))


def gradient(method, forward, state, batch, seed=2):
    """(loss, Aux, gradient) of a method's loss at the state's parameters."""
    key = jax.random.key(seed)
    (loss, aux), grads = _gradient(method.loss, forward, state, batch, key)
    return loss, aux, grads


def images_seen(method, forward, state, batch, passes):
    """([images], (loss, Aux)) of one loss: what these forward passes were given."""

    @quick_jit
    def run(state, batch):
        seen = []

        def spy(params, stats, images, key, train):
            seen.append(images)
            return forward(params, stats, images, key, train)

        result = method.loss(spy, state.params, state, batch, jax.random.key(0))
        return [seen[number] for number in passes], result

    return run(state, batch)


@functools.partial(quick_jit, static_argnums=0)
def predict(forward, state, images):
    """The outputs of a training pass over [M, ...] images."""
    return forward(state.params, state.stats, images, None, True)[0]


def to_double(tree):
    """float32 -> float64."""
    widen = lambda x: x.astype(np.float64) if x.dtype == np.float32 else x
    return jax.tree.map(widen, tree)


def assert_close(got, want, rtol=1e-4, atol=1e-6):
    """Two trees; the default tolerances are float32's after a backward pass."""
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), got, want
    )


def assert_same(got, want):
    """Two trees, bit by bit."""
    jax.tree.map(np.testing.assert_array_equal, got, want)
