"""How programs are compiled: `jit` with the right options, and a cache on disk."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

# XLA:CPU hands dots and convolutions to a library that computes the weight gradient of
# a convolution 2-5 times slower than XLA itself; leave it only the reductions.
CPU_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}


def compiler_options() -> dict[str, str]:
    """What `jit` passes to the compiler: `CPU_OPTIONS` on a CPU, else nothing.

    Another version of XLA may not know an option and would refuse to compile, so the
    first call in a process tries them on an empty program, and passes none if refused.
    """
    return CPU_OPTIONS if jax.default_backend() == "cpu" and _accepted() else {}


@functools.cache
def _accepted() -> bool:
    try:
        jax.jit(lambda: (), compiler_options=CPU_OPTIONS).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


class jit:
    """`jax.jit` with `compiler_options`, for the outermost function of a program.

    The results are those of `jax.jit` up to the order of sums. Options are looked up
    at the first call, so that decorating a function touches no device. JAX refuses
    compiler options inside another transformation: there, use `__wrapped__`. Lowering
    and `jax.export` work as usual, for any platform; the options do not travel along.
    """

    def __init__(self, fun: Callable, **kwargs: Any):
        """Takes the arguments of `jax.jit`."""
        functools.update_wrapper(self, fun)
        self._kwargs = kwargs

    @functools.cached_property
    def _jitted(self):
        options = compiler_options() or None
        return jax.jit(self.__wrapped__, compiler_options=options, **self._kwargs)

    def __call__(self, *args, **kwargs):
        """Runs the function, compiling it if these shapes are new."""
        if self.cache_size():
            return self._jitted(*args, **kwargs)
        with _no_garbage_collection():
            return self._jitted(*args, **kwargs)

    def trace(self, *args, **kwargs) -> jax.stages.Traced:
        """Same as `jax.jit(fun).trace`."""
        return self._jitted.trace(*args, **kwargs)

    def lower(self, *args, **kwargs) -> jax.stages.Lowered:
        """Same as `jax.jit(fun).lower`."""
        return self._jitted.lower(*args, **kwargs)

    def eval_shape(self, *args, **kwargs):
        """Same as `jax.jit(fun).eval_shape`."""
        return self._jitted.eval_shape(*args, **kwargs)

    def cache_size(self) -> int:
        """Number of programs compiled so far: 1 as long as no shape has changed."""
        return self._jitted._cache_size()


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Tracing makes many objects to keep; looking for garbage among them is slow.

    For a WRN-28-2 it is a quarter of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def enable_cache(directory: str | os.PathLike) -> None:
    """Keeps compiled programs in a directory, for this process and later ones.

    The second start of a configuration then reads its programs instead of compiling
    them. Every program is kept, however small: a training run has dozens that are
    quick each and slow together. Programs compiled before this call are not in the
    cache. Whoever can write to the directory can run code in the process that reads it.
    """
    jax.config.update("jax_compilation_cache_dir", os.fspath(directory))
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    compilation_cache.reset_cache()  # JAX else keeps the one it began with, or none
