"""libsk: one kernel, any number of ranks.

::

    import libsk as sk

    with sk.Comm() as comm:  # The launcher's environment says who the ranks are: `sk run -n 4 ...`
        total = comm.allreduce(numpy.ones(1000, numpy.float32))
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from libsk._errors import (
    AbortedError,
    BadHandleError,
    BusyError,
    DesyncError,
    DeviceError,
    Error,
    ForkedError,
    InternalError,
    InvalidArgumentError,
    NoMemoryError,
    OutOfRangeError,
    PeerLostError,
    SystemCallError,
    TileError,
    TimeoutError,
    TransportError,
    TrustError,
    UnsupportedError,
)
from libsk._op_names import OPERATIONS

if TYPE_CHECKING:
    from libsk._cell import Cell
    from libsk._cell_values import CellError, CellEvent, Result
    from libsk._comm import Comm, comm
    from libsk._context import Context
    from libsk._device_memory import DeviceArray
    from libsk._gemm import Packed
    from libsk._ops import *  # noqa: F403
    from libsk._plan import Plan, check_plan
    from libsk._prepared import Prepared
    from libsk._session import Session
    from libsk._tile import Tile, tile
    from libsk._topo import Topo, topo
    from libsk._trace import Trace

__version__ = "0.1.0"

__all__ = [
    "AbortedError",
    "BadHandleError",
    "BusyError",
    "Cell",
    "CellError",
    "CellEvent",
    "Comm",
    "Context",
    "DesyncError",
    "DeviceArray",
    "DeviceError",
    "Error",
    "ForkedError",
    "InternalError",
    "InvalidArgumentError",
    "NoMemoryError",
    "OPERATIONS",
    "OutOfRangeError",
    "Packed",
    "PeerLostError",
    "Plan",
    "Prepared",
    "Result",
    "Session",
    "SystemCallError",
    "Tile",
    "TileError",
    "TimeoutError",
    "Trace",
    "Topo",
    "TransportError",
    "TrustError",
    "UnsupportedError",
    "check_plan",
    "comm",
    *OPERATIONS,
    "tile",
    "topo",
    "version",
]

# Loaded at first use, for they bring NumPy: a notebook's ranks are ready before they need it.
_LAZY = {
    "Cell": "libsk._cell",
    "CellError": "libsk._cell_values",
    "CellEvent": "libsk._cell_values",
    "Comm": "libsk._comm",
    "Context": "libsk._context",
    "DeviceArray": "libsk._device_memory",
    "Packed": "libsk._gemm",
    "Plan": "libsk._plan",
    "Prepared": "libsk._prepared",
    "Result": "libsk._cell_values",
    "Session": "libsk._session",
    "Topo": "libsk._topo",
    "Trace": "libsk._trace",
    "check_plan": "libsk._plan",
    "comm": "libsk._comm",
    **dict.fromkeys(OPERATIONS, "libsk._ops"),
    "Tile": "libsk._tile",
    "tile": "libsk._tile",
    "topo": "libsk._topo",
}


def __getattr__(name: str) -> Any:
    if name == "_core":  # Not loaded yet.
        return _compiled()
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'libsk' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def _compiled() -> Any:
    try:
        return import_module("libsk._core")
    except ModuleNotFoundError as error:
        if error.name != "libsk._core":
            raise
        python, here = sys.version.split()[0], __file__.removesuffix("/__init__.py")
        raise ImportError(
            f"there is no compiled module of libsk for Python {python} in {here}: this is a "
            "checkout, lies in an archive, or was installed for another Python; install libsk for "
            "this one",
            name=error.name,
        ) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def version() -> tuple[int, int, int]:
    """The version of the loaded libsk.so: major, minor, patch."""
    from libsk import _core

    number = _core.version()
    return number // 1_000_000, number // 1000 % 1000, number % 1000
