"""How many threads numerical libraries use, where they were loaded before the rank was there.

A library that starts its threads when it is loaded cannot be forked, so modules are imported under
``OMP_NUM_THREADS=1`` and its kin. In a rank each library is then told the number that it would have
read from the rank's own environment.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OMP = "OMP_NUM_THREADS"
_OPENBLAS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", _OMP)
_MKL = ("MKL_NUM_THREADS", _OMP)
_BLIS = ("BLIS_NUM_THREADS", _OMP)
_NUMEXPR = ("NUMEXPR_NUM_THREADS", _OMP)

VARIABLES = tuple(dict.fromkeys((*_OPENBLAS, *_MKL, *_BLIS, *_NUMEXPR)))

_LIBRARIES = (
    # A library's name; its functions that set the number; where the number is from.
    (
        r"openblas",
        ("openblas_set_num_threads", "openblas_set_num_threads64_")
        + ("scipy_openblas_set_num_threads", "scipy_openblas_set_num_threads64_"),
        _OPENBLAS,
    ),
    (r"^libmkl_rt", ("MKL_Set_Num_Threads",), _MKL),
    (r"^libblis", ("bli_thread_set_num_threads",), _BLIS),
    (r"^lib(gomp|omp|iomp5)\b", ("omp_set_num_threads",), (_OMP,)),
)


@dataclass
class _Knob:
    """One library's number."""

    turn: Callable[[int], Any]
    variables: tuple[str, ...]


_knobs: list[_Knob] = []


def hold() -> dict[str, str | None]:
    """One thread for all that is loaded from here on; what was set before."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    return before


def release(before: dict[str, str | None]) -> None:
    """As it was, but for what a module has set meanwhile."""
    for name, value in before.items():
        if os.environ.get(name) != "1":
            continue
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def remember() -> None:
    """Finds the libraries that are loaded, once for all ranks."""
    lines = Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines()
    paths = dict.fromkeys(line[line.index("/") :] for line in lines if "/" in line)
    for path in paths:
        for pattern, functions, variables in _LIBRARIES:
            if re.search(pattern, Path(path).name):
                _knobs.extend(_Knob(turn, variables) for turn in _found(path, functions))


def _found(path: str, functions: tuple[str, ...]) -> list[Callable[[int], Any]]:
    try:
        library = ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:  # Mapped, but not as a library.
        return []
    found = [getattr(library, name) for name in functions if hasattr(library, name)]
    for function in found:
        function.argtypes, function.restype = [ctypes.c_int], None
    return found


def apply() -> None:
    """In a rank whose environment is its own by now."""
    for knob in _knobs:
        knob.turn(_number(knob.variables))
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads"):
        has_mkl = getattr(getattr(torch, "_C", None), "has_mkl", False)
        torch.set_num_threads(_number(_MKL if has_mkl else (_OMP,)))
    numexpr = sys.modules.get("numexpr")
    if hasattr(numexpr, "set_num_threads"):
        numexpr.set_num_threads(min(_number(_NUMEXPR), numexpr.MAX_THREADS))


def _number(variables: tuple[str, ...]) -> int:
    """As the library reads it: the first that is a number, of OpenBLAS's at most the cores; without
    any, the cores."""
    cores = len(os.sched_getaffinity(0))
    for name in variables:
        text = os.environ.get(name, "")
        # OpenMP takes a list, a number for each level of nesting; to MKL that is no number.
        first = (text if variables is _MKL else text.split(",")[0]).strip()
        if first.isascii() and first.isdigit() and int(first) > 0:
            count = int(first)
            return min(count, cores) if variables is _OPENBLAS else count
    return cores
