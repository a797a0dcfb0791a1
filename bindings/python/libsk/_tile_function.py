"""What a tile's function of Python's is called with: arrays of its tile.

A function may keep its arrays: so that they never look into memory that is gone, each is a view of
an array of the call's, which it keeps alive, or a copy where the tile lies in none.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from libsk import _core, _dtypes
from libsk._errors import BusyError, Error
from libsk._operand import Operand

_View = tuple[int, int, int, int]
"""Rows, columns, elements from row to row, element type."""


_forks = 0
"""How many this process is away from the first."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class _Turn:
    """Whose call it is. A forked child has one of its own: nobody there ends a call that another
    thread was inside of."""

    def __init__(self) -> None:
        self.forks = _forks
        self.lock = threading.RLock()  # One that lets its own thread in is one that can be refused.
        self.is_taken = False


class Function:
    """One, for one call at a time: an exception is that call's, and so are the arrays."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        vectors: list[bool],
        reads: list[bool],
        floats: list[bool],
    ) -> None:
        self._name = name
        self._turn = _Turn()
        self._arrays = _Arrays(function, vectors, reads)
        self.core = _core.TileFunction(name, self._arrays.call, len(vectors), floats)
        """What the library calls, and must live as long as the operation does."""

    def within(
        self, operands: Iterable[Operand] | None, call: Callable[..., None], *arguments: Any
    ) -> None:
        """A call with these operands; None: its arrays look at the tile's memory as it is.

        What the function raised is raised.
        """
        outer = _core.inside_tile()
        if outer is not None:  # Its call has what this one would wait for.
            raise BusyError(
                f"tile {self._name} was called from inside tile {outer}, whose call is not over",
                14,
                "SK_ERR_BUSY",
            )
        if self._turn.forks != _forks:
            self._turn = _Turn()
        turn = self._turn
        with turn.lock:
            if turn.is_taken:
                raise BusyError(
                    f"tile {self._name} was called by what interrupts this thread's call of it, as"
                    " a handler of a signal does: that call is not over",
                    14,
                    "SK_ERR_BUSY",
                )
            try:
                turn.is_taken = True  # With no call beside it, behind which a handler may raise.
                self.core.take_raised()
                self._arrays.operands = None if operands is None else list(operands)
                call(*arguments)
            except Error as error:
                raised = self.core.take_raised()
                if raised is None:
                    raise
                try:
                    raise raised from error
                finally:
                    del raised  # Its frames, this one among them, would keep the arrays.
            finally:
                self._arrays.operands = []
                turn.is_taken = False


class _Arrays:
    def __init__(
        self, function: Callable[..., Any], vectors: list[bool], reads: list[bool]
    ) -> None:
        self._function = function
        self._regions = list(zip(vectors, reads, strict=True))
        self.operands: list[Operand] | None = []

    def call(
        self, addresses: tuple[int, ...], views: tuple[_View, ...], numbers: tuple[float, ...]
    ) -> None:
        """Of the function, with its arrays."""
        given, copies = [], []
        for address, view, (vector, read) in zip(addresses, views, self._regions, strict=True):
            memory, is_kept = self._memory(address, view)
            array = _array(memory, view)
            if not is_kept:
                copy = array.copy()
                if not read:
                    copies.append((array, copy))
                array = copy
            array.flags.writeable = not read
            given.append(array[0] if vector else array)
        self._function(*given, *numbers)
        for array, copy in copies:
            array[...] = copy

    def _memory(self, address: int, view: _View) -> tuple[Any, bool]:
        """A tile's, and whether it stays for as long as an array looks into it."""
        rows, columns, stride, code = view
        reach = ((rows - 1) * stride + columns) * _dtypes.ITEMSIZES[code] if rows * columns else 0
        if reach == 0:
            return np.empty(0, np.uint8), True
        memory = (ctypes.c_char * reach).from_address(address)
        if self.operands is None:
            return memory, True
        for each in self.operands:
            begin, size = each.span
            if begin <= address and address + reach <= begin + size:
                memory.owner = each.owner  # type: ignore[attr-defined]
                return memory, True
        return memory, False


def _array(memory: Any, view: _View) -> np.ndarray:
    rows, columns, stride, code = view
    dtype = np.dtype(np.uint16) if code == _dtypes.BF16 else _dtypes.to_numpy(code)
    steps = (stride * dtype.itemsize, dtype.itemsize)
    return np.ndarray((rows, columns), dtype, memory, strides=steps)
