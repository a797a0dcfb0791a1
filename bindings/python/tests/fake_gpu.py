"""Two GPUs that are not there: a driver whose kernels run on the CPU, in a real one's place.

The library is loaded here under the name by which libsk asks for a driver, so the whole way from
Python to the kernels is gone. Memory of such a GPU is the host's, so tests look into it.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporter import BFLOAT, FLOAT, Exporter

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("SK_BUILD_DIR", ROOT / "build" / "release")) / "tests" / "gpu"
POISON = 0xAB
_CODES = {"bfloat16": BFLOAT, "int32": 0, "int64": 0}


class FakeGpus:
    """What a test does beside libsk."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL(str(FOLDER / "libcuda.so.1"))
        self._kernels = ctypes.CDLL(str(FOLDER / "kernels" / "libsk_cuda.so.0"))
        handle = ctypes.c_void_p
        self._held: set[int] = set()
        for name, result, arguments in (
            ("allocate", handle, [ctypes.c_int, ctypes.c_size_t]),
            ("free", None, [handle]),
            ("stream", handle, [ctypes.c_int]),
            ("launches", ctypes.c_int, []),
        ):
            function = getattr(self._driver, f"sk_fake_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self._driver.sk_fake_hold.restype = handle

    allocate: Any
    """(gpu, bytes): an address of poisoned memory; -1 is pinned memory of the host."""
    stream: Any
    """(gpu): the handle of a new stream."""
    launches: Any
    free: Any

    def hold(self, stream: int) -> int:
        """Work on this stream waits until ``open()`` of what is returned."""
        hold = self._driver.sk_fake_hold(ctypes.c_void_p(stream))
        self._held.add(hold)
        return hold

    def open(self, hold: int) -> None:
        """The stream goes on."""
        self._held.remove(hold)
        self._driver.sk_fake_open(ctypes.c_void_p(hold))

    def open_all(self) -> None:
        """After a test that failed."""
        for hold in list(self._held):
            self.open(hold)

    def wait(self, stream: int, other: int) -> None:
        """``stream`` goes on once ``other`` has done what it has by now."""
        event = ctypes.c_void_p()
        assert self._driver.cuEventCreate(ctypes.byref(event), 0) == 0
        assert self._driver.cuEventRecord(event, ctypes.c_void_p(other)) == 0
        assert self._driver.cuStreamWaitEvent(ctypes.c_void_p(stream), event, 0) == 0

    def array(self, values: Any, gpu: int = 0) -> Exporter:
        """A copy of these values on a GPU, as an array with ``__dlpack__``."""
        values = np.asarray(values)
        there = self.empty(values.shape, values.dtype, gpu)
        there.memory[...] = values.view(there.memory.dtype)
        return there

    def empty(self, shape: tuple[int, ...], dtype: Any, gpu: int = 0) -> Exporter:
        """Poisoned memory on a GPU."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        view = host_view(self.allocate(gpu, max(size, 1)), shape, dtype)
        return on_gpu(view, dtype, gpu)


def host_view(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory of a fake GPU as the host sees it."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)


def on_gpu(view: np.ndarray, dtype: Any = None, gpu: int = 0) -> Exporter:
    """This view of a GPU's memory as an array with ``__dlpack__``."""
    code = _CODES.get(np.dtype(dtype or view.dtype).name, FLOAT)
    return Exporter(view, code, device=(2, gpu))


def is_poisoned(array: Exporter) -> bool:
    """Whether nobody has written there."""
    return bool(np.all(np.ascontiguousarray(array.memory).view(np.uint8) == POISON))


def page_examples() -> list[str]:
    """The Python examples of docs/gpu-python.md, in order."""
    page = (ROOT / "docs" / "gpu-python.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def load() -> FakeGpus:
    """The fake GPUs of this process; the test is skipped where they were not built."""
    if not (FOLDER / "libcuda.so.1").exists():
        pytest.skip(f"{FOLDER} has no fake driver; ./dev test builds it")
    return FakeGpus()
