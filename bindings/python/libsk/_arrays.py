"""Arrays of the CPU that come in: NumPy, anything with ``__dlpack__``, and plain numbers.

One that is row-major and aligned to its elements is used where it lies; any other is copied first.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from libsk import _dtypes
from libsk._checks import about_value, kind_of
from libsk._core import Borrowed, describe, know_numpy
from libsk._errors import Error, invalid
from libsk._gradients import exporter
from libsk._lazy import Lazy
from libsk._operand import Operand, address_of, laid_out
from libsk._tangents import check_no_tangent
from libsk._wrapped import check_has_memory

_CPU_DEVICES = (1, 3, 11)
"""DLPack's device types whose memory the CPU reads: CPU, and pinned for CUDA or ROCm."""
_DEVICE_NAMES = {2: "CUDA", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}
_BYTES_END = 2**63

know_numpy(np.ndarray, np.empty)
_exchange: Any = Lazy("libsk._exchange")


def operand(x: Any, what: str, dtype: Any = None) -> Operand:
    """What ``x`` is; ``what`` names it in sentences, ``dtype`` says what uint16 bits mean."""
    if type(x) is np.ndarray:
        plain = describe(x) if dtype is None else None
        if plain is not None:
            span, shape, code, read_only = plain
            return Operand(span, shape, None, code, read_only, x)
        return _of_numpy(x, what, dtype)
    if is_numpy(x):
        _check_unmasked(x, what)
        return operand(np.asarray(x), what, dtype)  # A subclass may see its memory otherwise.
    if exports(x):
        return _of_dlpack(x, what, dtype)
    if x is None:
        raise invalid(f"{what} is None; give a NumPy array or anything with __dlpack__")
    return operand(_of_numbers(x, what), what, dtype)


def is_numpy(x: Any) -> bool:
    """Whether this is an array of NumPy's, whatever it says of itself."""
    return issubclass(type(x), np.ndarray)


def exports(x: Any) -> bool:
    """Whether this is another library's array; NumPy's numbers export themselves, as copies."""
    return hasattr(x, "__dlpack__") and not issubclass(type(x), (np.generic, type))


def _check_unmasked(x: np.ndarray, what: str) -> None:
    ma = sys.modules.get("numpy.ma")  # It may be half imported, as torch: then there are none.
    if issubclass(type(x), getattr(ma, "MaskedArray", ())):
        raise invalid(
            f"{what} is a masked array, and libsk knows no masks: give {what}.data, or"
            f" {what}.filled() with a value for what is masked"
        )


def _of_numbers(x: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(x)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - also of the object's own __array__ and the like.
        raise invalid(f"{what} is no array: {error}") from about_value(error)
    if array.dtype == object or array.dtype.kind in "USV":
        raise invalid(
            f"{what} is {kind_of(x)}; give a NumPy array, anything with __dlpack__, or a number"
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
    flags, address = x.flags, address_of(x)
    if flags.c_contiguous and address % x.itemsize == 0:
        return Operand((address, x.nbytes), x.shape, None, code, not flags.writeable, x)
    return laid_out(address, x.shape, x.strides, code, not flags.writeable, x)


def _of_dlpack(x: Any, what: str, dtype: Any) -> Operand:
    torch = torch_if_of(x)
    if torch is not None:
        _exchange.know_torch()  # For the calls to come.
        check_no_tangent(x, what)
        check_has_memory(torch, x, what)
    device, index = device_of_array(x, what)
    if device not in _CPU_DEVICES:
        where = _DEVICE_NAMES.get(device, f"type {device}")
        gpu = f', or use a communicator made with device="cuda:{index}"' if device == 2 else ""
        raise invalid(
            f"{what} lies on device {where} {index}, and this communicator is on the CPU: copy it"
            f" to the host (torch: .cpu()){gpu}"
        )
    if has_pending_bits(x):
        if what == "out":
            raise pending_bits(what, "a tensor of plain elements")
        x = x.resolve_conj().resolve_neg()
    return borrow(x, what, (device, index), dtype)


def torch_if_of(x: Any) -> Any:
    """The module torch where ``x`` is a tensor of its, else None.

    While another thread imports it, it lies there and has little yet: not what is looked up in it
    here, and no tensors.
    """
    torch = sys.modules.get("torch")
    return torch if isinstance(x, getattr(torch, "Tensor", ())) else None


def has_pending_bits(x: Any) -> bool:
    """Whether memory holds other values than this tensor: torch negates and conjugates by a bit,
    of which its ``__dlpack__`` says nothing (``z.conj().imag``)."""
    return torch_if_of(x) is not None and (x.is_neg() or x.is_conj())


def pending_bits(what: str, wanted: str) -> Error:
    """Where nothing may be copied."""
    return invalid(
        f"{what} is a torch tensor whose negation or conjugation is a bit that is yet to be"
        f" applied (is_neg(), is_conj()); give {wanted}"
    )


def device_of_array(x: Any, what: str) -> tuple[int, int]:
    """DLPack's type and number of the device that an exporter's memory is on."""
    try:
        kind, index = x.__dlpack_device__()
        return int(kind), int(index)
    except Exception as error:  # noqa: BLE001 - the exporter's own.
        raise invalid(f"{what} does not say on which device it lies: {error}") from about_value(
            error
        )


def borrow(x: Any, what: str, device: tuple[int, int], dtype: Any = None, **stream: int) -> Operand:
    """What ``x`` exports through DLPack on this device; for a ``stream`` where it has them."""
    torch = torch_if_of(x)
    borrowed = _ask(x if torch is None else exporter(torch, x, what), what, stream)
    # Numbers of devices that are the host say nothing.
    on_host = {device[0], borrowed.device[0]} <= set(_CPU_DEVICES)
    if borrowed.device != device and not on_host:
        raise invalid(
            f"{what} exports memory of DLPack's device {borrowed.device}, but says it is on"
            f" {device}"
        )
    code = _dtypes.of_dlpack(borrowed.dtype, what)
    if dtype is not None and _dtypes.of_any(dtype) != code:
        names = _dtypes.NAMES
        raise invalid(
            f"{what} has dtype {names[code]}, but dtype says {names[_dtypes.of_any(dtype)]};"
            " convert it first"
        )
    shape, strides = borrowed.shape, borrowed.strides
    itemsize = _dtypes.ITEMSIZES[code]
    if any(size < 0 for size in shape) or math.prod(shape) * itemsize >= _BYTES_END:
        raise invalid(f"{what} exports shape {shape} through DLPack, which no memory has")
    if borrowed.address == 0 and 0 not in shape:
        raise invalid(f"{what} exports no memory through DLPack: its address is null")
    if strides is not None:
        strides = tuple(step * itemsize for step in strides)
    read_only = borrowed.read_only or borrowed.is_copy
    return laid_out(borrowed.address, shape, strides, code, read_only, borrowed)


def _ask(x: Any, what: str, stream: dict[str, int]) -> Borrowed:
    try:
        try:
            capsule = x.__dlpack__(**stream, max_version=(1, 0))
        except TypeError:  # An exporter from before DLPack 1.0.
            capsule = x.__dlpack__(**stream)
        return Borrowed(capsule)
    except (MemoryError, Error):  # A DeviceArray's own sentences among them.
        raise
    except Exception as error:  # noqa: BLE001 - the exporter's own.
        raise invalid(f"{what} cannot be exported through DLPack: {error}") from about_value(error)
