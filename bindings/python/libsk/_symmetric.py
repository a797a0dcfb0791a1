"""Symmetric memory as NumPy arrays, and who may still look into it.

Each ``sk_alloc()`` is one hidden root array that only the list here holds. NumPy makes every view,
slice and reshape of an array refer to its root, so the root's reference count tells how many arrays
still use the memory, and memory that one of them uses is never given back.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from libsk import _core, _dtypes
from libsk._errors import BusyError, invalid
from libsk._operand import Interface


class Memory:
    """The symmetric memory of one communicator, and the communicator's end."""

    def __init__(self, handle: _core.Comm) -> None:
        self._handle = handle
        self._roots: dict[int, tuple[np.ndarray, int]] = {}
        """By address: the root, and its reference count while nothing uses it."""

    def empty(self, shape: tuple[int, ...], code: int) -> np.ndarray:
        """A new allocation. Collective."""
        dtype = _dtypes.to_numpy(code)
        size = math.prod(shape) * dtype.itemsize
        if size == 0:
            raise invalid(f"shape is {shape}; symmetric memory needs at least one element")
        address = self._handle.alloc(size)
        interface = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }
        self._roots[address] = (np.asarray(Interface(interface, _core.Lease(self._handle))), 0)
        unused = self._references(address)
        root = self._roots[address][0]
        self._roots[address] = (root, unused)
        return root.view(dtype).reshape(shape)

    def free(self, array: Any) -> None:
        """Gives one allocation back. Collective."""
        address = self._address_of(array)
        others = self._references(address) - self._roots[address][1] - 1
        if others > 0:
            raise BusyError(
                f"comm.free(): {others} other array(s) still look into this memory"
                " (views, slices); delete them first",
                14,
                "SK_ERR_BUSY",
            )
        self._handle.free_memory(address)
        del self._roots[address]
        # The array forgets the memory: it now has no elements, so no later use can reach it.
        array.__setstate__((1, (0,), array.dtype, False, b""))

    def _references(self, address: int) -> int:
        root = self._roots[address][0]
        return sys.getrefcount(root)

    def _address_of(self, array: Any) -> int:
        base = array
        while isinstance(base, np.ndarray):
            for address, (root, _) in self._roots.items():
                if base is root:
                    return address
            base = base.base
        raise invalid("comm.free() takes an array of this communicator's empty()")
