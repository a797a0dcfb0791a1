"""Plans: what every rank does, task by task; made once, run many times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, SupportsIndex

from libsk import _core, _dtypes
from libsk._checks import OPS, index_of, integer, is_given, milliseconds, shown, text_of
from libsk._errors import invalid
from libsk._gemm import Packed

if TYPE_CHECKING:
    from libsk._place import Call, Place

KINDS = {
    "barrier": 1,
    "allreduce": 2,
    "allgather": 3,
    "reduce_scatter": 4,
    "broadcast": 5,
    "send_recv": 6,
    "allreduce_gemm": 7,
    "allgather_gemm": 8,
}
"""``enum sk_op_kind``."""

_USES = {
    "barrier": "",
    "allreduce": "dtype op count in_place",
    "allgather": "dtype count in_place",
    "reduce_scatter": "dtype op count in_place",
    "broadcast": "dtype root count",
    "send_recv": "dtype root peer count",
    "allreduce_gemm": "dtype out_dtype m n k",
    "allgather_gemm": "dtype out_dtype m n k",
}
"""What each kind is planned by, beside where its memory is."""

_PRODUCTS = tuple(kind for kind, uses in _USES.items() if "k" in uses.split())

_SUM = OPS["sum"]

_FLAGS = ("symmetric_in", "symmetric_out", "in_place")
_SIZES = ("count", "m", "n", "k")

_NOTHING = (0, 0)
"""The span of an operand that this rank has not."""


class Plan:
    """A validated plan of one communicator: :meth:`libsk.Comm.plan` makes it. Immutable."""

    __slots__ = (
        "__weakref__",
        "_handle",
        "kind",
        "_code",
        "_out_code",
        "_sizes",
        "_world_size",
        "_place",
    )

    def __init__(
        self,
        handle: _core.Plan,
        kind: str,
        codes: tuple[int, int],
        sizes: tuple[int, ...],
        world_size: int,
        place: Place,
    ) -> None:
        self._handle = handle
        self.kind = kind
        """The operation, as given to ``comm.plan()``."""
        self._code, self._out_code = codes
        self._sizes = sizes
        self._world_size = world_size
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

        ``x`` has as many elements as planned and the planned type; for a product it is A,
        contiguous, and ``weights`` is the packed B. "barrier" takes no arrays; of "send_recv" the
        sender gives ``x`` and the receiver ``out``, and other ranks return at once. Memory is as
        planned: ``out`` is ``x`` where the plan is in place, and only there.
        """
        if weights is None and dtype is None and stream is None and timeout is None:
            quick = self._handle.try_run(x, out)
            if quick is not None:
                return quick
        limit = milliseconds(timeout)
        if weights is not None and not isinstance(weights, Packed):
            raise invalid(f"weights is {shown(weights)}; give what comm.pack() returns")
        if (weights is not None) != (self.kind in _PRODUCTS):
            kinds = " or ".join(_PRODUCTS)
            raise invalid(f"weights (of comm.pack()) belong to a plan of {kinds}, and only it")
        packed = weights._handle if weights is not None else None
        if self.kind == "barrier":
            if x is not None or out is not None:
                raise invalid("a barrier takes no arrays")
            call = self._place.begin(stream)
            call.run(self._handle.run, _NOTHING, None, _NOTHING, call.stream, limit)
            return None
        call = self._place.begin(stream, (x, out))
        source = None
        if x is not None:
            source = call.row_major(x, "x", dtype)
            self._check_input(source.code, source.count)
        elif self.kind != "send_recv":
            raise invalid("x is None; give the input of the plan")
        if self.kind == "send_recv" and out is None:
            memory = source.span if source else _NOTHING
            call.run(self._handle.run, memory, None, _NOTHING, call.stream, limit)
            return None
        shape = self._result_shape(call, source, out)
        alike = source is not None and shape == source.shape
        result = call.output(out, x, self._out_code, shape, source if alike else None)
        memory = source.span if source else _NOTHING
        call.run(self._handle.run, memory, packed, result.operand.span, call.stream, limit)
        return result.finish()

    def _check_input(self, code: int, count: int) -> None:
        elements, m, _, k = self._sizes
        wanted = m * k if self.kind in _PRODUCTS else elements
        if self.kind == "reduce_scatter":
            wanted *= self._world_size
        if code != self._code:
            names = _dtypes.NAMES
            raise invalid(f"x has dtype {names[code]}; the plan is for {names[self._code]}")
        if count != wanted:
            raise invalid(f"x has {count} elements; the plan is for {wanted}")

    def _result_shape(self, call: Call, source: Any, out: Any) -> tuple[int, ...]:
        elements, m, n, _ = self._sizes
        if self.kind in _PRODUCTS:
            return (m * (self._world_size if self.kind == "allgather_gemm" else 1), n)
        if out is not None:
            shape = call.target(out, self._code).shape
            wanted = elements * (self._world_size if self.kind == "allgather" else 1)
            if math.prod(shape) != wanted:
                raise invalid(f"out has {math.prod(shape)} elements; the plan is for {wanted}")
            return shape
        if self.kind == "allgather":
            return (self._world_size, *source.shape)
        return (elements,) if self.kind == "reduce_scatter" else source.shape

    def __repr__(self) -> str:
        return f"<libsk.Plan: {self.kind} {_dtypes.NAMES[self._code]}>"


def make_plan(
    comm: _core.Comm,
    world_size: int,
    place: Place,
    kind: str,
    code: int | None,
    out_code: int,
    op: int | None,
    root: SupportsIndex,
    peer: SupportsIndex,
    flags: tuple[bool, bool, bool],
    sizes: tuple[SupportsIndex, SupportsIndex, SupportsIndex, SupportsIndex],
) -> Plan:
    """``sk_plan_create()``."""
    number = KINDS.get(kind) if isinstance(kind, str) else None
    if number is None:
        raise invalid(f"kind is {shown(kind)}; allowed is {', '.join(KINDS)}")
    has_type = kind != "barrier"
    planned = code if code is not None else _dtypes.F32
    if has_type and kind not in _PRODUCTS and out_code not in (0, planned):
        names = _dtypes.NAMES
        raise invalid(
            f"out_dtype is {names[out_code]}, and {kind} gives what it takes, {names[planned]};"
            f" only {' and '.join(_PRODUCTS)} have a type of their own for the result"
        )
    bits = sum(
        1 << place
        for place, (name, given) in enumerate(zip(_FLAGS, flags, strict=True))
        if is_given(given, name)
    )
    root, peer = index_of(root, "root"), index_of(peer, "peer")
    counts = [
        integer(size, name, "a number of elements, 0 or more", end=2**63)
        for name, size in zip(_SIZES, sizes, strict=True)
    ]
    _refuse_unused(
        kind,
        {
            "dtype": code or 0,
            "out_dtype": out_code if out_code != planned or not has_type else 0,
            "op": 0 if kind == "allreduce_gemm" and op == _SUM else op or 0,
            "root": root,
            "peer": peer,
            **dict(zip(_SIZES, counts, strict=True)),
            **{name: bits >> place & 1 for place, name in enumerate(_FLAGS)},
        },
    )
    uses_op = "op" in _USES[kind].split()
    handle = _core.Plan(
        comm,
        number,
        planned if has_type else 0,
        out_code,
        (op or _SUM) if uses_op else 0,
        root,
        peer,
        bits,
        *counts,
    )
    codes = (planned, out_code or planned)
    return Plan(handle, kind, codes, tuple(counts), world_size, place)


def _refuse_unused(kind: str, given: dict[str, int]) -> None:
    """What is given was meant for something."""
    used = {*_USES[kind].split(), *(() if kind == "barrier" else _FLAGS[:2])}
    for name, value in given.items():
        if value and name not in used:
            raise invalid(f"{name} is given, and a plan of {kind} has none")


def check_plan(text: str) -> None:
    """Parses and validates a plan's text; the exception names the line or the rule."""
    _core.plan_check(text_of(text, "text", "a plan's text, as plan.dump() writes it"))
