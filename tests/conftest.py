"""Tests run JAX stricter than production, on 8 virtual CPU devices."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["UPSILON_PIXEL_CACHE"] = "0"  # tests keep nothing in the user's cache

import jax
import pytest

from tests.no_writers import leave_out_writers
from upsilon_jax import native
from upsilon_jax.native import libraries
from upsilon_jax.runtime import compilation

# Nearly all the time of the fast tests goes into compiling programs that run once, so
# they are compiled in haste, by XLA's older code generator and without LLVM's
# optimisations: the same HLO, in a third of the time. Slow tests compile as production
# does.
HASTE = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
# Training takes many steps, which then take eight times as long.
HASTE_IN_TRAINING = {"xla_backend_optimization_level": "1"}


def pytest_configure(config):
    """Sets up JAX. Programs compiled by one test serve the others, and the next run."""
    if config.option.markexpr == "not slow":
        given = os.environ.get("XLA_FLAGS", "")  # a worker is given its parent's
        if HASTE not in given:
            os.environ["XLA_FLAGS"] = f"{given} {HASTE}"  # before there are devices
        compilation.CPU_OPTIONS.update(HASTE_IN_TRAINING)
    jax.config.update("jax_num_cpu_devices", 8)
    jax.config.update("jax_numpy_rank_promotion", "raise")
    # Training takes all devices unless one is the default: most tests want just one.
    jax.config.update("jax_default_device", jax.devices()[0])
    compilation.enable_cache(config.cache.mkdir("compiled"))


@pytest.fixture(autouse=True, scope="module")
def not_too_many_programs():
    """Each has several maps of memory: beyond 65,530 of them Linux ends the process."""
    yield
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > 15_000:
        jax.clear_caches()


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rows_over_8_devices():
    """Places an array (or tree) with its first axis sharded over 8 devices."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.NamedSharding(mesh, jax.P("data"))
    return lambda tree: jax.device_put(tree, sharding)


@pytest.fixture
def compiler():
    """Skips tests where nothing can be compiled."""
    try:
        libraries._compiler()
    except libraries.NotBuilt as reason:
        pytest.skip(str(reason))


@pytest.fixture
def native_code(compiler):
    """Our C++ code, which must compile where there is a compiler."""
    if not native.switched_on() or jax.default_backend() != "cpu":
        pytest.skip("C++ code is not used here")
    for name in native.FUNCTIONS:
        assert native.available(name), f"{name}.cc could not be compiled"


@pytest.fixture(scope="module")
def no_tensorboard():
    """Runs without TensorBoard, and so without importing TensorFlow."""
    with pytest.MonkeyPatch.context() as patch:
        leave_out_writers(patch)
        yield


@pytest.fixture
def prepared(monkeypatch):
    """Every `Run` that `train` prepares, to look into."""
    from upsilon_jax.training import loop

    seen = []

    def prepare(config, original=loop.prepare, **kwargs):
        seen.append(original(config, **kwargs))
        return seen[-1]

    monkeypatch.setattr(loop, "prepare", prepare)
    return seen
