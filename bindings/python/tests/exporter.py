"""An array library of its own, to see what is asked of one through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np

FLOAT, BFLOAT = 2, 4
"""DLPack's type codes."""


class DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DLTensor(ctypes.Structure):
    """As DLPack lays it out."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("release", _Release)]


class Exporter:
    """An array library of its own: DLPack 0 with any type code, as old torch has it."""

    _lent: ClassVar[list[Exporter]] = []
    """Each for every time that nobody has released it yet: what is lent stays alive."""

    def __init__(
        self,
        memory: np.ndarray,
        code: int,
        offset: int = 0,
        device: tuple[int, int] = (1, 0),
    ) -> None:
        self.memory = memory
        self.released = 0
        self.streams: list[Any] = []
        """What it was asked to be in order with."""
        self._shape = (ctypes.c_int64 * memory.ndim)(*memory.shape)
        steps = [step // memory.itemsize for step in memory.strides]
        self._strides = (ctypes.c_int64 * memory.ndim)(*steps)
        self._release = _Release(self._count)
        self._device = device
        tensor = DLTensor(
            memory.ctypes.data - offset,
            DLDevice(*device),
            memory.ndim,
            code,
            memory.itemsize * 8,
            1,
            self._shape,
            self._strides,
            offset,
        )
        self._managed = _Managed(tensor, None, self._release)

    def _count(self, managed: int) -> None:
        self.released += 1
        self._lent.remove(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        self._lent.append(self)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self._managed), b"dltensor", None)
