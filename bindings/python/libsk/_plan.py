"""Plans: what every rank does, task by task; made once, run many times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from libsk import _core, _dtypes
from libsk._checks import milliseconds
from libsk._errors import invalid
from libsk._gemm import Packed

if TYPE_CHECKING:
    from libsk._comm import Comm
    from libsk._place import Call, Place

KINDS = {
    "barrier": 1,
    "allreduce": 2,
    "allgather": 3,
    "reduce_scatter": 4,
    "broadcast": 5,
    "send_recv": 6,
    "allreduce_gemm": 7,
}
"""``enum sk_op_kind``."""


class Plan:
    """A validated plan of one communicator: :meth:`libsk.Comm.plan` makes it. Immutable."""

    __slots__ = (
        "_handle",
        "kind",
        "_code",
        "_out_code",
        "_sizes",
        "_world_size",
        "_flags",
        "_place",
    )

    def __init__(
        self,
        handle: _core.Plan,
        kind: str,
        codes: tuple[int, int],
        sizes: tuple[int, int, int, int],
        world_size: int,
        flags: int,
        place: Place,
    ) -> None:
        self._handle = handle
        self.kind = kind
        """The operation, as given to ``comm.plan()``."""
        self._code, self._out_code = codes
        self._sizes = sizes
        self._world_size = world_size
        self._flags = flags
        self._place = place

    def dump(self) -> str:
        """All ranks' tasks as text; :func:`libsk.check_plan` reads it back."""
        return self._handle.dump()

    def run(
        self,
        x: Any = None,
        out: Any = None,
        *,
        weights: Packed | None = None,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs the plan, collectively, and returns ``out`` or a new array.

        ``x`` has as many elements as planned and the planned type; for "allreduce_gemm" it is A,
        contiguous, and ``weights`` is the packed B. "barrier" takes no arrays; of "send_recv" the
        sender gives ``x`` and the receiver ``out``.
        """
        limit = milliseconds(timeout)
        if (weights is not None) != (self.kind == "allreduce_gemm"):
            raise invalid(
                "weights (of comm.pack()) belong to a plan of allreduce_gemm, and only it"
            )
        packed = weights._handle if weights is not None else None
        if self.kind == "barrier":
            if x is not None or out is not None:
                raise invalid("a barrier takes no arrays")
            call = self._place.begin(stream)
            call.run(self._handle.run, 0, None, 0, call.stream, limit)
            return None
        call = self._place.begin(stream, (x, out))
        source = None
        if x is not None:
            source = call.row_major(x, "x", dtype)
            self._check_input(source.code, source.count)
        elif self.kind != "send_recv":
            raise invalid("x is None; give the input of the plan")
        if self.kind == "send_recv" and out is None:
            call.run(self._handle.run, source.address if source else 0, None, 0, call.stream, limit)
            return None
        result = call.output(out, x, self._out_code, self._result_shape(call, source, out))
        address = source.address if source else 0
        call.run(self._handle.run, address, packed, result.operand.address, call.stream, limit)
        return result.finish()

    def _check_input(self, code: int, count: int) -> None:
        elements, m, _, k = self._sizes
        wanted = m * k if self.kind == "allreduce_gemm" else elements
        if self.kind == "reduce_scatter":
            wanted *= self._world_size
        if code != self._code:
            names = _dtypes.NAMES
            raise invalid(f"x has dtype {names[code]}; the plan is for {names[self._code]}")
        if count != wanted:
            raise invalid(f"x has {count} elements; the plan is for {wanted}")

    def _result_shape(self, call: Call, source: Any, out: Any) -> tuple[int, ...]:
        elements, m, n, _ = self._sizes
        if self.kind == "allreduce_gemm":
            return (m, n)
        if out is not None:
            shape = call.operand(out, "out", "bf16" if _is_bits(out, self._code) else None).shape
            wanted = elements * (self._world_size if self.kind == "allgather" else 1)
            if math.prod(shape) != wanted:
                raise invalid(f"out has {math.prod(shape)} elements; the plan is for {wanted}")
            return shape
        if self.kind == "allgather":
            return (self._world_size, *source.shape)
        return (elements,) if self.kind == "reduce_scatter" else source.shape

    def __repr__(self) -> str:
        return f"<libsk.Plan: {self.kind} {_dtypes.NAMES[self._code]}>"


def _is_bits(out: Any, code: int) -> bool:
    return code == _dtypes.BF16 and str(getattr(out, "dtype", "")) == "uint16"


def make_plan(
    comm: Comm,
    kind: str,
    code: int,
    out_code: int,
    op: int,
    root: int,
    peer: int,
    flags: tuple[bool, bool, bool],
    sizes: tuple[int, int, int, int],
) -> Plan:
    """``sk_plan_create()``."""
    number = KINDS.get(kind) if isinstance(kind, str) else None
    if number is None:
        raise invalid(f"kind is {kind!r}; allowed is {', '.join(KINDS)}")
    bits = sum(1 << place for place, given in enumerate(flags) if given)
    handle = _core.Plan(comm._handle, number, code, out_code, op, root, peer, bits, *sizes)
    return Plan(handle, kind, (code, out_code or code), sizes, comm.world_size, bits, comm._place)


def check_plan(text: str) -> None:
    """Parses and validates a plan's text; the exception names the line or the rule."""
    _core.plan_check(text)
