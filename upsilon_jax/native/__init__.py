"""C++ functions that XLA:CPU calls, compiled on the machine they run on.

XLA:CPU has no fast convolution and takes several passes over memory where one would do;
what is here makes up for that, and is never needed: without a C++ compiler all runs as
well, only slower.
"""

from __future__ import annotations

import contextlib
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
# Where compiled programs are kept, unless the user has chosen a place.
CACHE = pathlib.Path("~/.cache/upsilon_jax/compiled").expanduser()
FUNCTIONS = {
    "rows": ("rows_exponents", "rows_top_label", "rows_masses", "rows_softmax"),
    "winograd": ("winograd_convolve", "winograd_weight_gradient"),
}
# The machine's own vector instructions are most of the gain.
OPTIONS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


@functools.cache
def available(name: str) -> bool:
    """Whether `jax.ffi.ffi_call` can call the functions of NAME.cc on this machine.

    The first call ever compiles the file, in some seconds. It is kept in the directory
    of compiled programs (`compilation.enable_cache`), or else in `CACHE`.
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
    library = _directory() / f"{source.stem}-{_digest(source, command)}.so"
    if library.exists():
        return ctypes.CDLL(os.fspath(library))
    with tempfile.TemporaryDirectory() as scratch:
        fresh = pathlib.Path(scratch, library.name)
        _run(*command, os.fspath(source), "-o", os.fspath(fresh))
        # Loaded from where no other process changes it, and nothing need be kept.
        loaded = ctypes.CDLL(os.fspath(fresh))
        with contextlib.suppress(OSError):
            _keep(fresh, library)
    return loaded


def _directory():
    chosen = jax.config.jax_compilation_cache_dir
    local = chosen and "://" not in chosen  # a bucket cannot be loaded from
    return pathlib.Path(chosen) if local else CACHE


def _keep(fresh, library):
    """Copies a file; another process may be doing the same: whole files only."""
    library.parent.mkdir(parents=True, exist_ok=True)
    beside = library.with_suffix(f".{os.getpid()}")
    shutil.copyfile(fresh, beside)
    beside.replace(library)


def _digest(source, command):
    """Of all that the library depends on; the macros tell compiler and processor."""
    texts = [path.read_text("utf-8") for path in (source, *sorted(HERE.glob("*.h")))]
    macros = _run(*command, "-x", "c++", "-E", "-dM", os.devnull)
    text = "\0".join((*texts, macros, jaxlib.__version__, *command))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run(*command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout
