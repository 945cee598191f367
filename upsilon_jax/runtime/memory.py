"""How much memory the process may have, and how it keeps it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys

# Parameters of glibc's `mallopt`, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGEST = 2**31 - 1  # bytes: what is larger would leave holes too large to waste

_CGROUP = pathlib.Path("/sys/fs/cgroup/memory.max")  # of a container


def most_bytes() -> int:
    """Bytes that the process can have at the very most; 2^63 if nobody says.

    That is the memory of the machine, unless the container or `ulimit -v` allow less.
    """
    limits = [2**63]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
        limits.append(int(_CGROUP.read_text()))
    with contextlib.suppress(ImportError):  # Windows has none
        import resource

        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min(limit for limit in limits if limit > 0)  # -1 stands for no limit


def shown(num_bytes: float) -> str:
    """A number of bytes as people say it: 1.5 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.3g} EiB"


def exhausted(error: BaseException) -> str:
    """The line for an error that means that there is no more memory; "" for others.

    XLA raises a RuntimeError with the name of its status, on any device.
    """
    said = " ".join(str(error).split())
    told = ("RESOURCE_EXHAUSTED", "can't start new thread", "std::bad_alloc")
    if not isinstance(error, MemoryError) and not any(word in said for word in told):
        return ""
    return (
        f"out of memory ({said[:200] or 'nobody says for what'}); what was saved is "
        "good, and with more memory the same command goes on from there; a smaller "
        "train.batch_size, network or image size needs another --workdir"
    )


def keep_freed() -> None:
    """Lets freed memory stay with the process instead of going back to the system.

    A train step on the CPU allocates its temporary arrays, a gigabyte and more, anew.
    The C library would get them from the system each time, which hands out zeroed pages
    of 4 KiB one by one: a third of a step. Now the second step finds the first one's,
    but for arrays beyond 2 GiB.

    Works with glibc, and only for threads that begin later: call it before JAX has
    devices. Otherwise it does nothing.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return
    mallopt(_ARENA_MAX, 1)  # others than the first cannot grow to such sizes
    mallopt(_MMAP_THRESHOLD, _LARGEST)
    mallopt(_TRIM_THRESHOLD, -1)
