"""Memory for one call: where it is, what it holds, and how its elements lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from libsk import _dtypes

Span = tuple[int, int]
"""Address, and the bytes from there on that belong to it. Every call of the extension module holds
the second against what it will touch."""


class Operand:
    """Memory for one call, and what keeps it alive."""

    __slots__ = ("span", "shape", "strides", "code", "read_only", "owner", "origin")

    def __init__(
        self,
        span: Span,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        code: int,
        read_only: bool,
        owner: Any,
    ) -> None:
        self.span = span
        self.shape = shape
        self.strides = strides
        """In bytes; None where the memory is row-major without gaps and aligned to its elements."""
        self.code = code
        self.read_only = read_only
        self.owner = owner
        self.origin: Operand | None = None
        """What this is a row-major copy of."""

    @property
    def itemsize(self) -> int:
        return _dtypes.ITEMSIZES[self.code]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def is_aligned(self) -> bool:
        """Whether every element lies at a multiple of its size, as libsk wants it."""
        size = self.itemsize
        return self.strides is None or not any(
            step % size for step in (self.span[0], *self.strides)
        )

    def bits(self) -> np.ndarray:
        """The same memory as NumPy's unsigned integers, for copies of whatever type."""
        interface = {
            "version": 3,
            "shape": self.shape,
            "typestr": f"<u{self.itemsize}",
            "data": (self.span[0], self.read_only),
        }
        if self.strides is not None:
            interface["strides"] = self.strides
        return np.asarray(Interface(interface, self.owner))

    def contiguous(self) -> Operand:
        """This operand, or a row-major copy of it."""
        if self.strides is None:
            return self
        copy = self.bits().copy()
        operand = Operand(span_of(copy), self.shape, None, self.code, False, copy)
        operand.origin = self
        return operand

    def dense_order(self) -> list[int] | None:
        """The order of its dimensions in which it is row-major, as ``channels_last`` has one; None
        where that is their own, or there is none."""
        strides = self.strides
        if strides is None:
            return None
        order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
        return order if self.in_order(order).strides is None else None

    def in_order(self, order: list[int]) -> Operand:
        """The same memory with its dimensions in another order."""
        strides = self.strides or _row_major_strides(self.shape, self.itemsize)
        shape, steps = (tuple(of[axis] for axis in order) for of in (self.shape, strides))
        return laid_out(self.span[0], shape, steps, self.code, self.read_only, self.owner)

    def layout(self) -> tuple[int, list[tuple[int, int]]]:
        """Where its elements lie: operands that have the same one are the same memory."""
        strides = self.strides or _row_major_strides(self.shape, self.itemsize)
        sides = zip(self.shape, strides, strict=True)
        return self.span[0], [side for side in sides if side[0] != 1]

    def extent(self) -> tuple[int, int]:
        """Where its first byte is, and where its last one ends."""
        steps = zip(self.strides or (), self.shape, strict=False)
        below = sum(min(step, 0) * (size - 1) for step, size in steps)
        return self.span[0] + below, self.span[0] + self.span[1]

    def rows(self, first: int, count: int) -> Operand:
        """Some of the first dimension's."""
        strides = self.strides or _row_major_strides(self.shape, self.itemsize)
        address = self.span[0] + first * strides[0]
        shape = (count, *self.shape[1:])
        return laid_out(address, shape, strides, self.code, self.read_only, self.owner)

    def overlaps_itself(self) -> bool:
        """Whether two elements share bytes, so that no result fits in."""
        if self.strides is None or self.count < 2:
            return False
        apart = True
        reach = self.itemsize  # Of all dimensions that were looked at, from first to last byte.
        sides = zip(self.strides, self.shape, strict=True)
        for step, size in sorted((abs(step), size) for step, size in sides if size > 1):
            apart = apart and step >= reach
            reach += step * (size - 1)
        if apart:  # Each dimension steps over all that lies within: so do slices of dense arrays.
            return False
        if reach < self.count * self.itemsize:
            return True
        offsets = np.zeros((), np.int64)
        for step, size in zip(self.strides, self.shape, strict=True):
            offsets = offsets[..., np.newaxis] + step * np.arange(size, dtype=np.int64)
        return bool(np.any(np.diff(np.sort(offsets, axis=None)) < self.itemsize))

    def overlaps(self, other: Operand) -> bool:
        """Whether an element of the one shares bytes with one of the other; also where that is too
        hard to tell."""
        try:
            return bool(np.shares_memory(self.bits(), other.bits(), max_work=10**6))
        except RuntimeError:  # numpy.exceptions.TooHardError, which old ones have elsewhere.
            return True


class Interface:
    """Lets NumPy look at memory by its address, and keeps the memory's owner."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def address_of(array: np.ndarray) -> int:
    """Where its first element is."""
    return array.__array_interface__["data"][0]


def span_of(array: np.ndarray) -> Span:
    """Of a row-major one."""
    return address_of(array), array.nbytes


def laid_out(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    code: int,
    read_only: bool,
    owner: Any,
) -> Operand:
    """An operand of these strides in bytes, None for row-major, wherever it starts."""
    size = _dtypes.ITEMSIZES[code]
    if 0 in shape:
        return Operand((address, 0), shape, None, code, read_only, owner)
    dense = _row_major_strides(shape, size)
    if strides is None or all(
        extent == 1 or step == wanted
        for extent, step, wanted in zip(shape, strides, dense, strict=True)
    ):
        strides = dense if address % size else None
        return Operand((address, math.prod(shape) * size), shape, strides, code, read_only, owner)
    reach = sum(max(step, 0) * (extent - 1) for extent, step in zip(shape, strides, strict=True))
    return Operand((address, reach + size), shape, strides, code, read_only, owner)


def _row_major_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
