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
        unused, _ = self._forget(address, [np.empty(0)], 0, 0)
        root = self._roots[address][0]
        self._roots[address] = (root, unused)
        return root.view(dtype).reshape(shape)

    def free(self, held: list[Any]) -> None:
        """Gives one allocation back. Collective.

        ``held`` has the array as its one item, for then it is known who refers to it: this list
        and, once, the caller. References of frames differ with versions of Python.
        """
        address = self._address_of(held)

        def forget() -> None:
            # The array has no elements from here on: no use can reach the memory, neither later nor
            # while the ranks wait for each other.
            of_root, of_item = self._roots[address][1] + 1, _OF_A_LIST_ALONE + 1
            root, item = self._forget(address, held, of_root, of_item)
            if root > of_root:
                others = root - of_root
                raise _busy(f"{others} other array(s) still look into this memory (views, slices)")
            if item > of_item:
                raise _busy(
                    f"{item - of_item} more reference(s) to this array may still reach its memory"
                    " (a tensor made of it, a memoryview or another buffer, an iterator, another"
                    " thread's call, a second name)"
                )

        self._handle.free_memory(address, forget)
        del self._roots[address]

    def _forget(
        self, address: int, held: list[Any], most_of_root: int, most_of_item: int
    ) -> tuple[int, int]:
        """How many refer to the root and to the item of the list; where there are not more than
        ``most``, that becomes an array of no elements."""
        root = self._roots[address][0]
        state = (1, (0,), held[0].dtype, False, b"")
        return _core.forget_array(root, held, most_of_root, most_of_item, state)

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


_OF_A_LIST_ALONE = _core.forget_array(np.empty(0), [np.empty(0)], 0, 0, ())[1]
