"""Symmetric memory as NumPy arrays, and who may still look into it.

Each ``sk_alloc()`` is one hidden root array that only the list here holds. NumPy makes every view,
slice and reshape of an array refer to its root, so the root's reference count tells how many arrays
still use the memory, and memory that one of them uses is never given back.

What is no view refers to the array that was handed out: buffers, capsules of DLPack and so tensors,
iterators, calls of other threads that are under way. They cannot be told from names of the array,
so it is given back while it has one name and nothing more.
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

    def free(self, held: list[Any]) -> None:
        """Gives one allocation back. Collective.

        ``held`` has the array as its one item, for then it is known who refers to it: this list
        and, once, the caller. References of frames differ with versions of Python.
        """
        address = self._address_of(held)
        others = self._references(address) - self._roots[address][1] - 1
        if others > 0:
            raise _busy(f"{others} other array(s) still look into this memory (views, slices)")
        users = _references_to_item(held) - _OF_A_LIST_ALONE - 1
        if users > 0:
            raise _busy(
                f"{users} more reference(s) to this array may still reach its memory (a tensor made"
                " of it, a memoryview or another buffer, an iterator, another thread's call, a"
                " second name)"
            )
        self._handle.free_memory(address)
        del self._roots[address]
        # The array forgets the memory: it now has no elements, so no later use can reach it.
        held[0].__setstate__((1, (0,), held[0].dtype, False, b""))

    def _references(self, address: int) -> int:
        root = self._roots[address][0]
        return sys.getrefcount(root)

    def _address_of(self, held: list[Any]) -> int:
        base = held[0]
        while isinstance(base, np.ndarray):
            for address, (root, _) in list(self._roots.items()):  # Others make some meanwhile.
                if base is root:
                    return address
            base = base.base
        raise invalid("comm.free() takes an array of this communicator's empty()")


def _busy(sentence: str) -> BusyError:
    return BusyError(f"comm.free(): {sentence}; delete them first", 14, "SK_ERR_BUSY")


def _references_to_item(held: list[Any]) -> int:
    return sys.getrefcount(held[0])


_OF_A_LIST_ALONE = _references_to_item([np.empty(0)])
