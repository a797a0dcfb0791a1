"""Memory in which nobody goes astray unseen: each array ends, or begins, at a page that no one may
touch, and what its pages hold beside it is a pattern that is looked at afterwards.

A read or write beyond an array's end faults at once, in the call that does it; one into the rest of
its page, or between its elements, is found by :meth:`Guarded.strays`.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PATTERN = 0xA5
_PAGE = mmap.PAGESIZE
_SIZE_MAX = 1 << 28

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """Bytes between two pages without access; given back when the last array over them is gone."""

    def __init__(self, size: int, at_end: bool = True) -> None:
        inner = -(-max(size, 1) // _PAGE) * _PAGE
        self._length = inner + 2 * _PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._start = _libc.mmap(None, self._length, 0, flags, -1, 0)
        if self._start == ctypes.c_void_p(-1).value:
            self._start = 0
            raise OSError(ctypes.get_errno(), "mmap of guarded memory")
        first = self._start + _PAGE
        if _libc.mprotect(first, inner, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect of guarded memory")
        self._pages = np.frombuffer((ctypes.c_uint8 * inner).from_address(first), np.uint8)
        self._pages[:] = PATTERN
        self._offset = inner - size if at_end else 0
        self._own = np.zeros(inner, bool)
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (first + self._offset, False),
        }

    def bytes(self) -> np.ndarray:
        """All of it; arrays made of this keep the memory."""
        return np.asarray(self)

    def claim(self, array: np.ndarray) -> None:
        """These elements may be written: none of :meth:`strays`."""
        at = _address(array) - (self._start + _PAGE)
        own = np.lib.stride_tricks.as_strided(
            self._own[at:], (*array.shape, array.itemsize), (*array.strides, 1)
        )
        own[...] = True

    def strays(self) -> int:
        """How many bytes beside those were written."""
        return int(np.count_nonzero((self._pages != PATTERN) & ~self._own))

    def __del__(self) -> None:
        if self._start:
            _libc.munmap(self._start, self._length)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def empty(shape: Any, dtype: Any = float, **_: Any) -> np.ndarray:
    """As ``numpy.empty``, at the end of guarded memory."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size > _SIZE_MAX:
        raise MemoryError(f"{size} bytes are more than a test wants")
    return Guarded(size).bytes().view(dtype).reshape(shape)
