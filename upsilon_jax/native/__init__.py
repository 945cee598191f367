"""C++ functions that XLA:CPU calls, compiled on the machine they run on.

XLA:CPU has no fast convolution; what is here makes up for that on one CPU device, and
is never needed: without a C++ compiler all runs as well, only slower.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import pathlib
import shutil
import subprocess
import tempfile

import jax
import jaxlib

HERE = pathlib.Path(__file__).parent
FUNCTIONS = {"winograd": ("winograd_convolve", "winograd_weight_gradient")}
# The machine's own vector instructions are most of the gain.
OPTIONS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


@functools.cache
def available(name: str) -> bool:
    """Whether `jax.ffi.ffi_call` can call the functions of NAME.cc on this machine.

    The first call in a process compiles the file, unless the directory of compiled
    programs (`compilation.enable_cache`) has it from an earlier one.
    """
    if jax.default_backend() != "cpu":
        return False
    try:
        library = _build(HERE / f"{name}.cc")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        logging.getLogger(__name__).info("%s.cc is not used: %s", name, reason)
        return False
    for function in FUNCTIONS[name]:
        capsule = jax.ffi.pycapsule(getattr(library, function))
        jax.ffi.register_ffi_target(target(function), capsule, platform="cpu")
    return True


def target(function: str) -> str:
    """The name under which XLA knows a function."""
    return f"upsilon_jax.{function}"


def _build(source: pathlib.Path) -> ctypes.CDLL:
    """Compiles, or finds, the library of a source file, and loads it."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        raise OSError("no C++ compiler found")
    command = (*compiler.split(), *OPTIONS, f"-I{jax.ffi.include_dir()}")
    cache = jax.config.jax_compilation_cache_dir
    with tempfile.TemporaryDirectory() as scratch:
        local = cache and "://" not in cache  # a bucket cannot be loaded from
        directory = pathlib.Path(cache if local else scratch)
        directory.mkdir(parents=True, exist_ok=True)
        library = directory / f"{source.stem}-{_digest(source, command)}.so"
        if not library.exists():
            fresh = pathlib.Path(scratch, "fresh.so")
            _run(*command, os.fspath(source), "-o", os.fspath(fresh))
            # Another process may be doing the same: whole files only, under this name.
            beside = library.with_suffix(f".{os.getpid()}")
            shutil.copyfile(fresh, beside)
            beside.replace(library)
        return ctypes.CDLL(os.fspath(library))


def _digest(source, command):
    """Of all that the library depends on; the macros tell compiler and processor."""
    macros = _run(*command, "-x", "c++", "-E", "-dM", os.devnull)
    text = "\0".join((source.read_text("utf-8"), macros, jaxlib.__version__, *command))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run(*command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout
