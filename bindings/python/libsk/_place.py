"""Where a communicator's operands lie: what a call asks of its arrays, on the CPU or on a GPU.

Each call begins with ``begin(stream, arrays)`` and gets an object of this shape; on a GPU that is a
new one, which has the call's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from libsk import _outputs
from libsk._arrays import operand
from libsk._errors import invalid

if TYPE_CHECKING:
    from libsk._operand import Operand
    from libsk._outputs import Output


class Call(Protocol):
    """One call's view of its arrays."""

    stream: int
    """The handle of the stream it goes on; 0 where there is none, and for the default one."""

    def operand(self, x: Any, what: str, dtype: Any = None) -> Operand:
        """``x``, in whatever layout; ``what`` names it in sentences."""

    def contiguous(self, operand: Operand, what: str) -> Operand:
        """A row-major operand of the same elements."""

    def row_major(self, x: Any, what: str, dtype: Any = None) -> Operand:
        """Both of them."""

    def target(self, out: Any, code: int) -> Operand:
        """What the caller gave for a result that may have type ``code``."""

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
        """Memory for a result; ``rows_apart`` where the call can leave gaps between its rows, and
        ``source`` where it can be in place."""

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        """The call itself, on operands of the above."""

    def complete(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same for one that is done when it returns, and what it returns."""


class Place(Protocol):
    """One communicator's side of all that."""

    def begin(self, stream: Any, arrays: Sequence[Any] = ()) -> Call:
        """A call on these arrays: None where one is not given."""

    def synchronize(self, stream: Any, timeout_ms: int) -> None:
        """``Comm.synchronize()``."""

    def settle(self) -> None:
        """Before the communicator is freed."""

    def end(self) -> None:
        """When it has been."""


class OnCpu:
    """Calls are done when they return, and nothing has a stream."""

    stream = 0
    operand = staticmethod(operand)

    def begin(self, stream: Any, arrays: Sequence[Any] = ()) -> OnCpu:
        if stream is not None:
            raise invalid(
                "stream is for communicators on a GPU; this one is on the CPU, where a call is"
                " done when it returns"
            )
        return self

    @staticmethod
    def contiguous(operand: Operand, what: str) -> Operand:
        return operand.contiguous()

    @staticmethod
    def row_major(x: Any, what: str, dtype: Any = None) -> Operand:
        found = operand(x, what, dtype)
        return found if found.strides is None else found.contiguous()

    target = staticmethod(_outputs.target_of)

    @staticmethod
    def output(
        out: Any,
        like: Any,
        code: int,
        shape: tuple[int, ...],
        source: Operand | None = None,
        *,
        rows_apart: bool = False,
        what: str = "out",
    ) -> Output:
        return _outputs.output(out, like, code, shape, source, what)

    @staticmethod
    def run(function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    @staticmethod
    def complete(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def synchronize(self, stream: Any, timeout_ms: int) -> None:
        self.begin(stream)

    def settle(self) -> None:
        pass

    def end(self) -> None:
        pass
