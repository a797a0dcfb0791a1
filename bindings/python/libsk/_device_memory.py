"""Symmetric memory of a GPU, as arrays that other libraries take over through DLPack."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex

from libsk import _core, _dtypes
from libsk._checks import shape_of
from libsk._device import Device
from libsk._errors import BusyError, invalid
from libsk._here import Here

_CUDA = 2


class Batch(list[Any]):
    """What calls on one stream use since it was last found done."""

    __slots__ = ("__weakref__",)


class Calls(Protocol):
    """A communicator's calls on a GPU, as far as they touch memory that is here."""

    device: Device
    batches: dict[int, Batch]
    """By stream."""

    def synchronize(self, stream: Any, timeout_ms: int) -> None:
        """Waits for them: all of them, or those on one stream."""


class _Loan:
    """What keeps the communicator for those who look into its memory."""

    __slots__ = ("__weakref__", "_lease")

    def __init__(self, handle: _core.Comm) -> None:
        self._lease = _core.Lease(handle)


class _Root:
    """One allocation of ``sk_alloc()``."""

    def __init__(self, handle: _core.Comm, place: Calls, size: int) -> None:
        self.address = handle.alloc(size)
        self.handle = handle
        self.place = place
        self.size = size
        self.is_freed = False
        self.loans: weakref.WeakSet[_Loan] = weakref.WeakSet()
        self._own = _Loan(handle)
        self._uses: dict[int, tuple[int, weakref.ref[Batch]]] = {}
        """The batches of calls that use it, of any communicator, by identity, with their streams;
        a batch is gone once its calls are done."""

    def note_use(self, stream: int, batch: Batch) -> None:
        """A call on ``stream`` reads or writes it, and is one of this ``batch``."""
        self._uses[id(batch)] = stream, weakref.ref(batch)

    def settle(self, stream: int | None) -> None:
        """Waits for calls on other streams than this one."""
        for key, (other, batch) in list(self._uses.items()):
            if batch() is None:
                del self._uses[key]
            elif other != stream:
                self.place.synchronize(other, 0)

    def give_back(self) -> None:
        self.handle.free_memory(self.address, self._forget)
        del self._own

    def _forget(self) -> None:
        """Nobody else is in a call by now; who asks for the memory while ranks wait is refused."""
        if self.loans:
            raise BusyError(
                f"comm.free(): {len(self.loans)} other array(s) still look into this memory"
                " (through DLPack); delete them first",
                14,
                "SK_ERR_BUSY",
            )
        self.is_freed = True


class DeviceArray(Here):
    """Memory of a GPU that all ranks reach: what ``comm.empty()`` gives there.

    It holds no operations of its own: ``torch.from_dlpack(array)`` and its like in other libraries
    make an array of theirs of it, over the same memory; ``__cuda_array_interface__`` is there, too.
    """

    __slots__ = ("__weakref__", "_root", "_code", "_shape")

    def __init__(self, root: _Root, code: int, shape: tuple[int, ...]) -> None:
        self._root = root
        self._code = code
        self._shape = shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes; rows lie one behind the other."""
        return self._shape

    @property
    def dtype(self) -> str:
        """The element type, ``"f32"``."""
        return _dtypes.NAMES[self._code]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self._shape) * _dtypes.ITEMSIZES[self._code]

    @property
    def device(self) -> str:
        """``"cuda:0"``."""
        return str(self._root.place.device)

    @property
    def ptr(self) -> int:
        """The address on the GPU."""
        self._check()
        return self._root.address

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> DeviceArray:
        """The same memory in another shape."""
        self._check()
        sizes = shape_of(shape[0] if len(shape) == 1 else shape)  # type: ignore[arg-type]
        if math.prod(sizes) != math.prod(self._shape):
            raise invalid(f"{self!r} has no shape {sizes}: the number of elements differs")
        return DeviceArray(self._root, self._code, sizes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._root.place.device.index

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._check()
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(f"{self!r} is lent where it lies; copy what you make of it")
        if stream != -1:  # -1: whoever asks takes care of the order.
            self._root.settle({None: 0, 1: 0}.get(stream, stream))
        loan = _Loan(self._root.handle)
        self._root.loans.add(loan)
        return _core.lend(
            self._root.address,
            self._shape,
            _dtypes.TO_DLPACK[self._code],
            self.__dlpack_device__(),
            loan,
            max_version is not None and max_version[0] >= 1,
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._check()
        if self._code == _dtypes.BF16:
            raise AttributeError("__cuda_array_interface__ has no bf16; use __dlpack__")
        self._root.settle(None)  # The interface can name one stream; there may be several.
        return {
            "version": 3,
            "shape": self._shape,
            "typestr": _dtypes.to_numpy(self._code).str,
            "data": (self._root.address, False),
            "strides": None,
            "stream": None,
        }

    def _note_use(self, stream: int, batch: Batch) -> None:
        self._root.note_use(stream, batch)

    def _check(self) -> None:
        if self._root.is_freed:
            raise invalid("this memory was given back by comm.free()")

    def __repr__(self) -> str:
        what = "freed" if self._root.is_freed else f"{self.dtype} on {self.device}"
        return f"<libsk.DeviceArray: {self._shape} {what}>"


class Memory:
    """The symmetric memory of one communicator on a GPU."""

    def __init__(self, handle: _core.Comm, place: Calls) -> None:
        self._handle = handle
        self._place = place
        self._roots: list[_Root] = []

    def empty(self, shape: tuple[int, ...], code: int) -> DeviceArray:
        """A new allocation. Collective."""
        size = math.prod(shape) * _dtypes.ITEMSIZES[code]
        if size == 0:
            raise invalid(f"shape is {shape}; symmetric memory needs at least one element")
        root = _Root(self._handle, self._place, size)
        self._roots.append(root)
        return DeviceArray(root, code, shape)

    def free(self, held: list[Any]) -> None:
        """Gives one allocation back, that of the list's one array. Collective."""
        root = getattr(held[0], "_root", None)
        if root not in self._roots:
            raise invalid("comm.free() takes an array of this communicator's empty()")
        root.settle(None)
        root.give_back()
        self._roots.remove(root)
