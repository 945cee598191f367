import gc
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import HASTE, HASTE_IN_TRAINING
from upsilon_jax.models import initialize
from upsilon_jax.models.wide_resnet import Unit
from upsilon_jax.runtime import compilation


@pytest.fixture
def fresh_probe():
    compilation._accepted.cache_clear()
    yield
    compilation._accepted.cache_clear()


def test_calls_like_jax_jit():
    f = compilation.jit(lambda x, n: x * n, static_argnums=1)
    assert f(jnp.arange(3), 2).tolist() == [0, 2, 4]
    assert f(jnp.arange(3), n=3).tolist() == [0, 3, 6]
    assert f.cache_size() == 2
    assert f.eval_shape(jnp.zeros(4), 2).shape == (4,)


def test_garbage_is_collected_but_while_a_function_is_traced():
    seen = []
    f = compilation.jit(lambda x: seen.append(gc.isenabled()) or x + 1)
    assert f(1) == 2 and gc.isenabled() and seen == [False]
    g = compilation.jit(lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        g(1)
    assert gc.isenabled()


def test_names_and_docstring_survive():
    @compilation.jit
    def scale(x):
        """Doubles."""
        return 2 * x

    assert scale.__name__ == "scale"
    assert scale.__doc__ == "Doubles."
    assert "jit_scale" in scale.lower(1.0).as_text()


def test_donates_its_arguments():
    x = jnp.ones((8, 8))
    compilation.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()


def test_option_reaches_the_compiler_on_a_cpu(fresh_probe, monkeypatch):
    assert compilation.compiler_options() == compilation.CPU_OPTIONS
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert compilation.compiler_options() == {}


@pytest.mark.slow
def test_slow_tests_compile_as_production_does():
    assert HASTE not in os.environ.get("XLA_FLAGS", "")
    assert not HASTE_IN_TRAINING.keys() & compilation.CPU_OPTIONS.keys()


def test_unknown_option_is_dropped_silently(fresh_probe, monkeypatch):
    monkeypatch.setattr(compilation, "CPU_OPTIONS", {"xla_no_such_option": "1"})
    assert compilation.compiler_options() == {}
    assert compilation.jit(lambda x: x + 1)(1) == 2


def test_numbers_do_not_depend_on_the_options():
    rng = np.random.default_rng(0)
    unit = Unit(channels=32, stride=1, activate_skip=False, bn_decay=0.9)
    x = jnp.asarray(rng.normal(size=(8, 16, 16, 32)), jnp.float32)
    params, stats = initialize(unit, x.shape[1:], seed=0)

    def loss(params):
        variables = {"params": params, "batch_stats": stats}
        y, _ = unit.apply(variables, x, train=True, mutable=["batch_stats"])
        return jnp.mean(jnp.sin(y))

    value, gradient = compilation.jit(jax.value_and_grad(loss))(params)
    plain_value, plain_gradient = jax.jit(jax.value_and_grad(loss))(params)
    # The same sums, of 2048 terms, in another order: some 1e-6 of the largest entry.
    np.testing.assert_allclose(value, plain_value, rtol=1e-5)
    for a, b in zip(*map(jax.tree.leaves, (gradient, plain_gradient)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5 * max(float(jnp.abs(b).max()), 1e-3))


@pytest.mark.parametrize("platform", ["tpu", "cuda", "cpu"])
def test_exports_for_any_platform(platform):
    f = compilation.jit(lambda x: jnp.sum(x * x))
    exported = jax.export.export(f, platforms=[platform])(jnp.ones(3))
    assert exported.platforms == (platform,)
    if platform == "cpu":
        assert exported.call(jnp.arange(3.0)) == 5


def test_wrapped_function_serves_inside_transformations():
    f = compilation.jit(lambda x: x**3)
    assert jax.grad(f.__wrapped__)(2.0) == 12


def test_decorating_touches_no_device():
    code = (
        "import jax; from upsilon_jax.runtime.compilation import jit; jit(lambda x: x);"
        "assert not jax._src.xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_second_process_reads_the_cache(tmp_path):
    # The first compilation comes before the cache, as in a process that trains twice.
    code = f"""
import jax, logging, sys
jax.jit(lambda x: x + 1)(1)
from upsilon_jax.runtime import compilation
compilation.enable_cache({str(tmp_path)!r})
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
compilation.jit(lambda x: x * 2)(1.0)
print(events.count("/jax/compilation_cache/cache_hits"))
"""
    hits = [
        int(subprocess.check_output([sys.executable, "-c", code], text=True))
        for _ in range(2)
    ]
    assert hits[0] == 0
    assert hits[1] >= 1
    assert any(tmp_path.iterdir())
