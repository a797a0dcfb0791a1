"""A heap that checks itself, for tests of what may write where it must not.

Python's own allocator fills, fences and checks what it gives (PYTHONMALLOC=debug); glibc's, from
which NumPy's arrays and all of libsk come, checks what is given back (malloc.check) and hands out
memory that is never zero by chance (malloc.perturb). Both in what the tests start, too; what they
fork can use its heap (tests/support/heap_forks.c).
"""

from __future__ import annotations

import ctypes
import os

from shell import BUILD

NAME = "SK_CHECKED_HEAP"
"""The variable that says what checks: for those who read a test's output."""
_GLIBC = "libc_malloc_debug.so.0"  # Since glibc 2.34 malloc.check is in there, and nowhere else.
_FORKS = BUILD / "release" / "tests" / "support" / "libsk_heap_forks.so"


def environment() -> dict[str, str]:
    """The variables that make it; the tests are built."""
    tunables = "glibc.malloc.perturb=165"
    checked = {"PYTHONMALLOC": "debug", "GLIBC_TUNABLES": tunables}
    try:
        ctypes.CDLL(_GLIBC)
    except OSError:
        return {**checked, NAME: f"PYTHONMALLOC=debug, {tunables}; there is no {_GLIBC}"}
    tunables += ":glibc.malloc.check=3"
    preload = f"{_FORKS} {_GLIBC} {os.environ.get('LD_PRELOAD', '')}".strip()
    said = f"PYTHONMALLOC=debug, {tunables}"
    return {**checked, "GLIBC_TUNABLES": tunables, "LD_PRELOAD": preload, NAME: said}
