"""A heap that checks itself, for tests of what may write where it must not.

Python's own allocator fills, fences and checks what it gives (PYTHONMALLOC=debug); glibc's, from
which NumPy's arrays and all of libsk come, checks what is given back (malloc.check) and hands out
memory that is never zero by chance (malloc.perturb). Both in what the tests start, too; what they
fork can use its heap (tests/support/heap_forks.c).
"""

from __future__ import annotations

import ctypes
import os

from shell import BUILD, ROOT, run

NAME = "SK_CHECKED_HEAP"
"""The variable that says what checks: for those who read a test's output."""
_GLIBC = "libc_malloc_debug.so.0"  # Since glibc 2.34 malloc.check is in there, and nowhere else.
_FORKS_SOURCE = ROOT / "tests" / "support" / "heap_forks.c"
_FORKS = BUILD / "libheap_forks.so"


def make() -> None:
    """Builds what of it is ours."""
    if not _FORKS.exists() or _FORKS.stat().st_mtime < _FORKS_SOURCE.stat().st_mtime:
        command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        run([*command, _FORKS_SOURCE, "-o", _FORKS, "-ldl", "-pthread"], "building the heap's gate")


def environment() -> dict[str, str]:
    """The variables that make it, behind make()."""
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
