"""Arrays of the CPU, in and out: NumPy, anything with ``__dlpack__``, and plain numbers.

An input that is contiguous in memory of the CPU is used where it lies; any other is copied first.
An output must be writable; one that is not contiguous is filled by a copy at the end.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from libsk import _dtypes
from libsk._core import Borrowed, describe
from libsk._errors import invalid

_CPU_DEVICES = (1, 3, 11)
"""DLPack's device types whose memory the CPU reads: CPU, and pinned for CUDA or ROCm."""
_DEVICE_NAMES = {2: "CUDA", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}


class Operand:
    """Memory for one call: where it is, what it holds, and what keeps it alive."""

    __slots__ = ("address", "shape", "strides", "code", "read_only", "owner")

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        code: int,
        read_only: bool,
        owner: Any,
    ) -> None:
        self.address = address
        self.shape = shape
        self.strides = strides
        """In elements; None where the memory is row-major without gaps."""
        self.code = code
        self.read_only = read_only
        self.owner = owner

    @property
    def itemsize(self) -> int:
        return _dtypes.ITEMSIZES[self.code]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def bits(self) -> np.ndarray:
        """The same memory as NumPy's unsigned integers, for copies of whatever type."""
        interface = {
            "version": 3,
            "shape": self.shape,
            "typestr": f"<u{self.itemsize}",
            "data": (self.address, self.read_only),
        }
        if self.strides is not None:
            interface["strides"] = tuple(step * self.itemsize for step in self.strides)
        return np.asarray(_Interface(interface, self.owner))

    def contiguous(self) -> Operand:
        """This operand, or a row-major copy of it."""
        if self.strides is None:
            return self
        copy = np.ascontiguousarray(self.bits())
        return Operand(_address(copy), self.shape, None, self.code, False, copy)


class _Interface:
    """Lets NumPy look at memory by its address, and keeps the memory's owner."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def operand(x: Any, what: str, dtype: Any = None) -> Operand:
    """What ``x`` is; ``what`` names it in sentences, ``dtype`` says what uint16 bits mean."""
    if isinstance(x, np.ndarray):
        plain = describe(x) if dtype is None else None
        if plain is not None:
            address, shape, code, read_only = plain
            return Operand(address, shape, None, code, read_only, x)
        return _of_numpy(x, what, dtype)
    if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
        return _of_dlpack(x, what)
    if x is None:
        raise invalid(f"{what} is None; give a NumPy array or anything with __dlpack__")
    return _of_numpy(_of_numbers(x, what), what, dtype)


def _of_numbers(x: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise invalid(f"{what} is no array: {error}") from error
    if array.dtype == object or array.dtype.kind in "USV":
        raise invalid(
            f"{what} is a {type(x).__name__}; give a NumPy array, anything with __dlpack__,"
            " or a number"
        )
    return array


def _of_numpy(x: np.ndarray, what: str, dtype: Any) -> Operand:
    if dtype is None:
        code = _dtypes.of_numpy(x.dtype, what)
    else:
        code = _dtypes.of_any(dtype)
        same = x.dtype == np.uint16 if code == _dtypes.BF16 else False
        if not same and _dtypes.of_numpy(x.dtype, what) != code:
            raise invalid(
                f"{what} has dtype {x.dtype}, but dtype says {_dtypes.NAMES[code]};"
                " convert it with .astype()"
            )
    if x.flags.c_contiguous:
        strides = None
    else:
        if any(step % x.itemsize for step in x.strides):
            x = x.copy()
        strides = tuple(step // x.itemsize for step in x.strides)
    address = _address(x)
    if address % x.itemsize:
        raise invalid(f"{what} starts at an address that is no multiple of {x.itemsize} bytes")
    return Operand(address, x.shape, strides, code, not x.flags.writeable, x)


def _of_dlpack(x: Any, what: str) -> Operand:
    device, index = (int(part) for part in x.__dlpack_device__())
    if device not in _CPU_DEVICES:
        where = _DEVICE_NAMES.get(device, f"type {device}")
        gpu = f', or use a communicator made with device="cuda:{index}"' if device == 2 else ""
        raise invalid(
            f"{what} lies on device {where} {index}, and this communicator is on the CPU: copy it"
            f" to the host (torch: .cpu()){gpu}"
        )
    return borrow(x, what)


def borrow(x: Any, what: str, **stream: int) -> Operand:
    """What ``x`` exports through DLPack, on whatever device; for a ``stream`` where it has them."""
    try:
        try:
            capsule = x.__dlpack__(**stream, max_version=(1, 0))
        except TypeError:  # An exporter from before DLPack 1.0.
            capsule = x.__dlpack__(**stream)
    except (BufferError, RuntimeError) as error:
        raise invalid(f"{what} cannot be exported through DLPack: {error}") from error
    borrowed = Borrowed(capsule)
    code = _dtypes.of_dlpack(borrowed.dtype, what)
    shape, strides = borrowed.shape, borrowed.strides
    if strides is not None and _is_row_major(shape, strides):
        strides = None
    return Operand(borrowed.address, shape, strides, code, borrowed.read_only, borrowed)


def _is_row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class Output:
    """Where a result goes: the caller's array, or a new one of the input's kind."""

    __slots__ = ("operand", "_target", "_result")

    def __init__(self, operand: Operand, target: Operand | None, result: Any) -> None:
        self.operand = operand
        """Memory for the call."""
        self._target = target
        self._result = result

    def finish(self) -> Any:
        """The array to return, once the call is done."""
        if self._target is not None:
            np.copyto(self._target.bits(), self.operand.bits())
        return self._result


class _NumberOutput(Output):
    """For an input that was a plain number: the result is one too."""

    __slots__ = ()

    def finish(self) -> Any:
        return self._result[()]


def output(out: Any, like: Any, code: int, shape: tuple[int, ...]) -> Output:
    """The memory for a result of this type and shape, checked if the caller gave it.

    ``like`` decides what a new one is: a torch tensor for a torch tensor, a number for a number,
    else a NumPy array.
    """
    if out is None:
        return _new(like, code, shape)
    if not isinstance(out, np.ndarray) and not hasattr(out, "__dlpack__"):
        raise invalid(f"out is a {type(out).__name__}; give an array that can be written")
    bits = code == _dtypes.BF16 and isinstance(out, np.ndarray) and out.dtype == np.uint16
    target = operand(out, "out", "bf16" if bits else None)
    check_output(target, code, shape)
    if target.strides is None:
        return Output(target, None, out)
    buffer = np.empty(shape, f"u{target.itemsize}")
    staged = Operand(_address(buffer), target.shape, None, code, False, buffer)
    return Output(staged, target, out)


def check_output(target: Operand, code: int, shape: tuple[int, ...]) -> None:
    """Whether a result of this type and shape may be written there."""
    if target.code != code:
        names = _dtypes.NAMES
        raise invalid(f"out has dtype {names[target.code]}; it must have {names[code]}")
    if tuple(target.shape) != tuple(shape):
        raise invalid(f"out has shape {tuple(target.shape)}; it must have {tuple(shape)}")
    if target.read_only:
        raise invalid("out is read-only; give an array that can be written")


def _new(like: Any, code: int, shape: tuple[int, ...]) -> Output:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        tensor = torch.empty(shape, dtype=getattr(torch, _dtypes.TORCH_NAMES[code]))
        return Output(operand(tensor, "out"), None, tensor)
    is_bits = isinstance(like, np.ndarray) and like.dtype == np.uint16
    array = np.empty(shape, np.uint16 if is_bits else _dtypes.to_numpy(code))
    memory = operand(array, "out", "bf16" if is_bits else None)
    is_number = shape == () and (isinstance(like, np.generic) or not hasattr(like, "shape"))
    return (_NumberOutput if is_number else Output)(memory, None, array)
