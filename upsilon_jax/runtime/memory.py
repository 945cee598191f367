"""How the process keeps its memory."""

from __future__ import annotations

import ctypes
import sys

# Parameters of glibc's `mallopt`, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGEST = 2**31 - 1  # bytes: what is larger would leave holes too large to waste


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
