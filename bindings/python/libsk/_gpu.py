"""Operands on a GPU: through DLPack, in order on a stream, and alive until the GPU is done.

A call enqueues and returns, so two things that the CPU's calls need not care for are settled here.

Order: each array is exported for the call's stream (``__dlpack__(stream=...)``), so its library
makes that stream wait for what it has enqueued on the array. Our own arrays have no library that
knows who writes them: they are taken for torch's, where torch is at work on the GPU.

Life: a torch tensor goes back to an allocator that reuses memory in the order of the stream it was
made for, as with torch's own operations; on any other stream the allocator is told
(``record_stream``). What other libraries export is held until a ``synchronize()`` or the
communicator's end has found the stream done.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from libsk import _dtypes
from libsk._arrays import (
    borrow,
    device_of_array,
    exports,
    has_pending_bits,
    pending_bits,
    torch_if_of,
)
from libsk._checks import kind_of
from libsk._device import Device, stream_of
from libsk._device_memory import Batch, DeviceArray
from libsk._errors import (
    MAY_BE_UNDER_WAY,
    BusyError,
    Error,
    InvalidArgumentError,
    TimeoutError,
    UnsupportedError,
    invalid,
)
from libsk._operand import Operand
from libsk._outputs import Output, check_mode, check_output
from libsk._tangents import check_no_tangent

if TYPE_CHECKING:
    from libsk import _core

_CUDA, _MANAGED = 2, 13
"""DLPack's device types of memory that a GPU's kernels may touch."""
_HOST = (1, 3, 11)
_HELD_MAX = 1024
"""Operands held for one stream before a call waits for that stream."""

_left_behind: list[Any] = []
"""What the GPU may still use though its communicator is gone: given up rather than given back."""


class OnGpu:
    """A communicator's calls on a GPU."""

    def __init__(self, handle: _core.Comm, device: Device, world_size: int) -> None:
        self._handle = handle
        self.device = device
        self.world_size = world_size
        self.batches: dict[int, Batch] = {}
        """By stream."""

    def begin(self, stream: Any, arrays: Sequence[Any] = ()) -> GpuCall:
        handle = self._default_stream(arrays) if stream is None else stream_of(stream)
        if len(self.batches.get(handle, ())) >= _HELD_MAX:
            # A stream that is being captured does not say when: what a graph uses stays alive.
            with contextlib.suppress(InvalidArgumentError):
                self._wait_for(handle, 0)
        return GpuCall(self, handle)

    def _default_stream(self, arrays: Sequence[Any]) -> int:
        torch = _torch_on_gpus()
        if torch is None:
            return 0
        is_used = any(torch_if_of(array) is not None and array.is_cuda for array in arrays)
        if not (is_used or not arrays or any(isinstance(array, DeviceArray) for array in arrays)):
            return 0
        return stream_of(torch.cuda.current_stream(self.device.index))

    def synchronize(self, stream: Any, timeout_ms: int) -> None:
        streams = list(self.batches) or [0] if stream is None else [stream_of(stream)]
        for handle in streams:
            self._wait_for(handle, timeout_ms)

    def _wait_for(self, handle: int, timeout_ms: int) -> None:
        self._handle.synchronize(handle, timeout_ms)
        self.batches.pop(handle, None)

    def __del__(self) -> None:  # Of a communicator that was dropped and not freed.
        self.settle()
        self.end()

    def settle(self) -> None:
        """Lets go of what calls have used, as far as they are done."""
        for handle, batch in list(self.batches.items()):
            try:
                if batch:
                    self._handle.synchronize(handle, 0)
            except BusyError:  # Nothing is freed then.
                raise
            except (TimeoutError, InvalidArgumentError):
                continue
            except Error:  # What became of the calls: nothing of theirs runs any more.
                pass
            self.batches.pop(handle, None)

    def end(self) -> None:
        """Gives up the rest."""
        _left_behind.extend(self.batches.values())
        self.batches.clear()


class GpuCall:
    """One call and its stream."""

    __slots__ = ("_place", "stream", "_uses")

    def __init__(self, place: OnGpu, stream: int) -> None:
        self._place = place
        self.stream = stream
        self._uses: list[tuple[Any, Operand]] = []

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        """Enqueues, and keeps what the GPU will use then."""
        self._check_thread()
        self.complete(function, *arguments)
        self._keep()

    def complete(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call that is done when it returns; where it fails, maybe later."""
        try:
            return function(*arguments)
        except Error as error:
            if error.code < MAY_BE_UNDER_WAY:
                self._uses.clear()
            else:
                self._hold()
            raise
        except BaseException:  # An interrupt may come behind the launch.
            self._hold()
            raise

    def _check_thread(self) -> None:
        """Torch has one thread for the backward work of all threads on one GPU: it must not wait
        for itself."""
        c = getattr(sys.modules.get("torch"), "_C", None)
        tell_task = getattr(c, "_current_graph_task_id", None)
        if self._place.world_size == 1 or tell_task is None or tell_task() == -1:
            return
        if c._is_multithreading_enabled():
            self._uses.clear()
            raise UnsupportedError(
                "called inside backward(), which torch runs for all ranks of this process in one"
                " thread per GPU, where one rank would wait for the next for ever: let each rank"
                " call backward() under torch.autograd.set_multithreading_enabled(False)",
                12,
                "SK_ERR_UNSUPPORTED",
            )

    def _batch(self) -> Batch:
        return self._place.batches.setdefault(self.stream, Batch())

    def _hold(self) -> None:
        """Keeps everything: an allocator only knows the order of what was enqueued by now."""
        batch = self._batch()
        batch.extend(operand.owner for _, operand in self._uses)
        self._note(batch)

    def _note(self, batch: Batch) -> None:
        """Also memory of another communicator, whose calls are of other batches."""
        for array, _ in self._uses:
            if isinstance(array, DeviceArray):
                array._note_use(self.stream, batch)

    def _keep(self) -> None:
        batch = self._batch()
        for array, operand in self._uses:
            torch = torch_if_of(array)
            if torch is None:
                batch.append(operand.owner)
            elif stream_of(torch.cuda.current_stream(array.device)) != self.stream:
                array.record_stream(_torchs_stream(torch, self.stream, array.device))
        self._note(batch)

    def operand(self, x: Any, what: str, dtype: Any = None) -> Operand:
        device = self._device_of(x, what)
        check_no_tangent(x, what)
        if has_pending_bits(x):
            raise pending_bits(what, f"{what}.resolve_conj().resolve_neg()")
        with self._current(torch_if_of(x)):
            found = borrow(x, what, device, dtype, stream=self._order(x))
        if found.span[0] % found.itemsize:
            raise invalid(
                f"{what} starts at an address that is no multiple of {found.itemsize} bytes"
            )
        self._uses.append((x, found))
        return found

    def _order(self, x: Any) -> int:
        """The stream that is to wait for what its library has enqueued to write ``x``."""
        if isinstance(x, DeviceArray):
            self._follow_torch()
        torch = torch_if_of(x)
        if torch is not None:
            # DLPack's -1: none. Torch's current stream need not wait for itself, and torch, which
            # would know it by another object, would record an event to that end; on a captured
            # stream a wait for work outside of the graph would end the capture.
            is_current = stream_of(torch.cuda.current_stream(x.device)) == self.stream
            if is_current or _is_captured_alone(torch, self.stream, x.device):
                return -1
        return self.stream or 1  # DLPack's 1: the default stream.

    def _follow_torch(self) -> None:
        """As ``Tensor.__dlpack__()`` does: this stream waits for torch's current one."""
        torch = _torch_on_gpus()
        if torch is None:
            return
        index = self._place.device.index
        current = torch.cuda.current_stream(index)
        with self._current(torch):
            if stream_of(current) == self.stream or _is_captured_alone(torch, self.stream, index):
                return
            _torchs_stream(torch, self.stream, index).wait_stream(current)

    def _current(self, torch: Any) -> AbstractContextManager[Any]:
        """Torch exports, and tells of captures, for the thread's current GPU alone: that is the
        first one in a new thread, whichever this communicator is on."""
        if torch is None:
            return contextlib.nullcontext()
        return torch.cuda.device(self._place.device.index)

    def _device_of(self, x: Any, what: str) -> tuple[int, int]:
        mine = self._place.device
        if x is None:
            raise invalid(f"{what} is None; give an array on {mine} with __dlpack__")
        if not exports(x):
            raise invalid(
                f"{what} is {kind_of(x)}; this communicator is on {mine} and takes arrays"
                " there that have __dlpack__"
            )
        kind, index = device_of_array(x, what)
        if kind == _MANAGED or (kind, index) == (_CUDA, mine.index):
            return kind, index
        if kind in _HOST:
            raise invalid(
                f"{what} lies in memory of the CPU, and this communicator is on {mine}: move it"
                f' there (torch: .to("{mine}")), or use a communicator made without device'
            )
        where = f"cuda:{index}" if kind == _CUDA else f"a device of DLPack's type {kind}"
        raise invalid(f"{what} lies on {where}, and this communicator is on {mine}: copy it there")

    def contiguous(self, operand: Operand, what: str) -> Operand:
        if operand.strides is not None:
            steps = tuple(step // operand.itemsize for step in operand.strides)
            raise invalid(
                f"{what} has strides {steps} for shape {operand.shape}; on a GPU nothing"
                f" is copied unasked: give {what}.contiguous()"
            )
        return operand

    def row_major(self, x: Any, what: str, dtype: Any = None) -> Operand:
        return self.contiguous(self.operand(x, what, dtype), what)

    def target(self, out: Any, code: int) -> Operand:
        check_mode(out, "out")
        return self.operand(out, "out")

    def output(
        self,
        out: Any,
        like: Any,
        code: int,
        shape: tuple[int, ...],
        source: Operand | None = None,
        *,
        rows_apart: bool = False,
    ) -> Output:
        is_new = out is None
        if is_new:
            out = self._new(like, code, shape)
        target = self.target(out, code)
        check_output(target, code, shape)
        if not (rows_apart and _has_rows(target)):
            self.contiguous(target, "out")
        return Output(target, None, out, is_new=is_new)

    def _new(self, like: Any, code: int, shape: tuple[int, ...]) -> Any:
        torch = torch_if_of(like)
        if torch is None:
            raise invalid(
                "out is missing: on a GPU a result is made for torch tensors only; give out, such"
                " as memory of comm.empty()"
            )
        return torch.empty(
            shape, dtype=getattr(torch, _dtypes.TORCH_NAMES[code]), device=like.device
        )


def _torch_on_gpus() -> Any:
    """The module torch where it works on GPUs, else None; while it is being imported it is
    incomplete."""
    torch = sys.modules.get("torch")
    has_begun = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    return torch if has_begun is not None and has_begun() else None


def _torchs_stream(torch: Any, handle: int, device: Any) -> Any:
    if handle == 0:  # Of which ExternalStream() makes any stream of torch's pool.
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(handle, device)


def _is_captured_alone(torch: Any, handle: int, device: Any) -> bool:
    """Whether this stream is captured and torch's current one, which is another, is not."""
    cuda = torch.cuda
    if cuda.is_current_stream_capturing():
        return False
    with cuda.stream(_torchs_stream(torch, handle, device)):
        return cuda.is_current_stream_capturing()


def _has_rows(matrix: Operand) -> bool:
    if matrix.strides is None:
        return True
    size = matrix.itemsize
    return matrix.strides[-1] == size and matrix.strides[0] >= matrix.shape[-1] * size
