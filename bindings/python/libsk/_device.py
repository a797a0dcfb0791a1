"""Devices and streams by the names that users have for them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from libsk._checks import about_value, refusal, shown, whole
from libsk._errors import invalid

_CPU, _CUDA = 0, 2
"""``enum sk_device_type``."""
_DLPACK_CPU = 1
_NUMBER_END = 2**31


class Device(NamedTuple):
    """A communicator's device, as ``sk_comm_config`` has it."""

    type: int
    index: int

    @property
    def is_gpu(self) -> bool:
        """Whether calls take a GPU's memory, and streams."""
        return self.type != _CPU

    def __str__(self) -> str:
        return f"cuda:{self.index}" if self.is_gpu else "cpu"


CPU = Device(_CPU, 0)


def device_of(device: Any) -> Device:
    """What ``libsk.Comm(device=...)`` means; a GPU without a number is the first."""
    kind, index = _parts_of(device)
    if kind == "cpu":
        return CPU
    if kind == "cuda" and isinstance(index, int) and 0 <= index < _NUMBER_END:
        return Device(_CUDA, index)
    raise invalid(
        f'device is {shown(device)}; give "cpu", "cuda:0", a torch.device, or a pair of DLPack:'
        " (2, 0)"
    )


def _parts_of(device: Any) -> tuple[str, int]:
    if device is None:
        return "cpu", 0
    if isinstance(device, Device):
        return ("cuda" if device.is_gpu else "cpu"), device.index
    if isinstance(device, str):
        found = re.fullmatch(r"(cpu|cuda)(?::(\d{1,9}))?", device)
        return (found[1], int(found[2] or 0)) if found else ("", 0)
    if isinstance(device, tuple) and len(device) == 2:
        kind, index = device
        if hasattr(kind, "__index__") and hasattr(index, "__index__"):
            return {_DLPACK_CPU: "cpu", _CUDA: "cuda"}.get(int(kind), ""), int(index)
    kind, index = getattr(device, "type", None), getattr(device, "index", None)  # torch.device
    return (kind, index or 0) if isinstance(kind, str) else ("", 0)


def stream_of(stream: Any) -> int:
    """The handle of a CUDA stream; 0 is the default one.

    A number, an object with ``__cuda_stream__`` or, as torch's, with ``cuda_stream``.
    """
    handle = stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:  # (version of the protocol, handle)
        try:
            handle = (protocol() if callable(protocol) else protocol)[1]
        except Exception as error:  # noqa: BLE001 - of an object of whatever type.
            raise invalid(
                f"stream is {shown(stream)}, whose __cuda_stream__ gives no pair: {error}"
            ) from about_value(error)
    elif hasattr(stream, "cuda_stream"):
        handle = stream.cuda_stream
    number, why = (None, []) if isinstance(handle, bool) else whole(handle)
    if number is None:
        raise refusal(
            f"stream is {shown(stream)}; give torch's, an object with __cuda_stream__, or the"
            " number that is a CUDA stream's handle",
            why,
        )
    if not 0 <= number < 2**64:
        raise invalid(f"stream is {number}; a CUDA stream's handle is an address, or 0")
    if number == 2:  # CU_STREAM_PER_THREAD
        raise invalid(
            "stream is 2, CUDA's per-thread default stream, which is another one in each thread,"
            " and one rank launches for all: give a stream of its own"
        )
    return 0 if number == 1 else number  # CU_STREAM_LEGACY
