"""Calls kept ready, for loops that repeat them: arguments are read, and plans made, once.

What a method of a communicator would do is done up to the call itself, by the same code, with a
communicator in its place that keeps the call instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from libsk import _core, _outputs
from libsk._arrays import exports, has_pending_bits, is_numpy
from libsk._checks import milliseconds, shown
from libsk._collectives import METHODS, Collectives
from libsk._errors import Error, UnsupportedError, invalid
from libsk._here import Here
from libsk._operand import Operand
from libsk._outputs import Output, read_only, writing
from libsk._place import Call, OnCpu, Place
from libsk._stays import Stays, stays


class Prepared(Here):
    """A call kept ready: :meth:`libsk.Comm.prepare` makes it. It keeps its arrays alive."""

    __slots__ = (
        "__weakref__",
        "_handle",
        "_run",
        "_result",
        "_array",
        "_is_plain",
        "_tensors",
        "_writing",
        "_kept",
        "operation",
    )

    def __init__(
        self,
        operation: str,
        handle: _core.Ready,
        result: Output | None,
        tensors: tuple[Stays, ...],
        kept: Any,
    ) -> None:
        self.operation = operation
        """The method of the communicator whose call it is."""
        self._handle = handle
        self._run = handle.run
        self._result = result
        self._array = None if result is None else result.array
        self._tensors = tensors
        self._writing = writing(*(() if result is None else (result,)))
        self._is_plain = type(result) is Output and is_numpy(self._array) and not tensors
        self._kept = kept

    def run(self, *, timeout: float | None = None) -> Any:
        """The call, with what its arrays hold now; collective, where the method is.

        Returns the result, which is the same array each time. One that has been made read-only is
        refused, and a tensor of torch that has other memory by now, or another shape or type, as
        after ``resize_()`` or ``share_memory_()``. Torch hears of each run that it has written its
        tensor.
        """
        array, limit = self._array, 0 if timeout is None else milliseconds(timeout)
        if not self._is_plain:
            return self._run_other(limit)
        if not array.flags.writeable:
            raise read_only("out")
        self._run(limit)
        return array

    def _run_other(self, limit: int) -> Any:
        """Where there are tensors, or the result is no array: a number, nothing, ..."""
        for each in self._tensors:
            each.check()
        result, array = self._result, self._array
        if is_numpy(array) and not array.flags.writeable:
            raise read_only("out")
        with self._writing:
            self._run(limit)
        return None if result is None else result.finish()

    def close(self) -> None:
        """Lets go of the call and its arrays. Twice is once; inside a run of it, ``BusyError``."""
        self._handle.close()
        self._is_plain = False  # First: a run that begins meanwhile has an array then.
        self._result = self._array = self._kept = None
        self._tensors, self._writing = (), writing()

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<libsk.Prepared: {self.operation}>"


class _Keeper:
    """In the place of a communicator, and of its place and call."""

    def __init__(self, comm: Any) -> None:
        self._handle, self._device = comm._handle, _Elsewhere
        self.rank, self.world_size = comm.rank, comm.world_size
        self._call: Call = OnCpu()
        self.stream = 0
        self.made: _core.Ready | None = None
        self.result: Output | None = None
        self.kept: list[Any] = []
        self.tensors: list[Stays] = []

    @property
    def _place(self) -> Place:
        return self  # type: ignore[return-value]

    def begin(self, stream: Any, arrays: Sequence[Any] = ()) -> _Keeper:
        self.kept.extend(arrays)
        return self

    def operand(self, x: Any, what: str, dtype: Any = None) -> Operand:
        if x is not None and not (is_numpy(x) or exports(x)):
            raise invalid(
                f"{what} is {shown(x)}; a call kept ready takes arrays, whose memory stays"
            )
        if exports(x) and has_pending_bits(x):
            raise _is_copied(what)
        found = self._call.operand(x, what, dtype)
        self._check_stays(x, what, found, dtype)
        self.tensors += stays(x, what, found, dtype)
        self.kept.append(found)
        return found

    def _check_stays(self, x: Any, what: str, found: Operand, dtype: Any = None) -> None:
        """An exporter may make a copy for whoever asks, and need not say so."""
        if not exports(x) or not found.count:
            return
        owner = found.owner
        is_copy = isinstance(owner, _core.Borrowed) and owner.is_copy
        if is_copy or self._call.operand(x, what, dtype).span != found.span:
            raise invalid(
                f"{what} exports a copy of itself through DLPack; a call kept ready takes arrays"
                " that export the memory they have"
            )

    def contiguous(self, operand: Operand, what: str) -> Operand:
        if operand.strides is not None:
            raise _is_copied(what)
        return operand

    def row_major(self, x: Any, what: str, dtype: Any = None) -> Operand:
        return self.contiguous(self.operand(x, what, dtype), what)

    def target(self, out: Any, code: int) -> Operand:
        return self._call.target(out, code)

    def output(self, out: Any, *arguments: Any, rows_apart: bool = False) -> Output:
        made = _outputs.output(out, *arguments)
        if made.given is not made.operand:
            raise _is_copied("out")
        if out is not None:
            self._check_stays(out, "out", made.operand)
        self.tensors += stays(made.array, "out", made.operand)
        made.is_new = True  # To torch, for nothing is written yet.
        self.result = made
        return made

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        *given, _, _ = arguments  # Neither the stream nor the limit, which each run has for itself.
        self.made = function.__self__.keep(*given)  # type: ignore[attr-defined]


class _Elsewhere:
    """No short way leads there."""

    is_gpu = True


def _is_copied(what: str) -> Error:
    return invalid(
        f"{what} is not row-major, or not aligned: a call kept ready works on its arrays where they"
        " lie, so nothing is copied; give a row-major array"
    )


def prepare(
    comm: Any, operation: str, arguments: tuple[Any, ...], given: dict[str, Any]
) -> Prepared:
    """``sk_op_create()``."""
    if comm._device.is_gpu:
        raise UnsupportedError(
            "comm.prepare() is for communicators on the CPU so far", 12, "SK_ERR_UNSUPPORTED"
        )
    if not isinstance(operation, str) or operation not in METHODS:
        raise invalid(f"operation is {shown(operation)}; allowed is {', '.join(METHODS)}")
    for name in ("stream", "timeout"):
        if name in given:
            raise invalid(f"{name} is given to prepare(); each run has its own: give it to run()")
    keeper = _Keeper(comm)
    getattr(Collectives, operation)(keeper, *arguments, **given, timeout=1.0)
    assert keeper.made is not None
    if keeper.result is not None:
        keeper.result.is_new = False  # A run writes what the one before it gave.
    return Prepared(operation, keeper.made, keeper.result, tuple(keeper.tensors), keeper.kept)
