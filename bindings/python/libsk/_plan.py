"""Plans: what every rank does, task by task; made once, run many times.

Which kinds there are, and what each is planned by, the library's schemas say.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from libsk import _core, _dtypes
from libsk._checks import OPS, index_of, integer, is_given, milliseconds, op_code, shown, text_of
from libsk._errors import UnsupportedError, invalid
from libsk._gemm import Packed
from libsk._here import Here
from libsk._outputs import writing
from libsk._schemas import Schema, of_role, schemas

if TYPE_CHECKING:
    from libsk._place import Call, Place

_SUM = OPS["sum"]
_FLAGS = ("symmetric_in", "symmetric_out", "in_place")
_FIELDS = frozenset({"op", "root", "peer", "count", "m", "n", "k"})
"""Dimensions and attributes that ``sk_plan_desc`` has fields for."""

_NOTHING = (0, 0)
"""The span of an operand that this rank has not."""

Extent = tuple[str, str, int]
"""An operand's shape, which attribute names the one rank that has it, and its type."""


class Kind:
    """One kind of plan, by the schema of its operation."""

    def __init__(self, schema: Schema) -> None:
        operands = schema["operands"]
        has_packed = {each["of"] for each in schema["fields"] if each["kind"] == "packed"}
        read = [each for each in of_role(schema, "in") if each["name"] not in has_packed]
        self.name: str = schema["name"]
        self.number: int = schema["id"]
        self.read = read[0] if read else None
        self.written = next(iter(of_role(schema, "out")), None)
        self.takes_weights = bool(has_packed)
        self.sizes = [each["name"] for each in schema["dimensions"]]
        self.numbers = [each for each in schema["attributes"] if each["kind"] != "bool"]
        self.has_out_dtype = self.written is not None and "|" in self.written["types"]
        self.uses = {*self.sizes, *(each["name"] for each in self.numbers)}
        self.uses |= {"dtype", *_FLAGS[:2]} if operands else set()
        self.uses |= {"out_dtype"} if self.has_out_dtype else set()
        self.uses |= {"in_place"} if any(each.get("alias") for each in operands) else set()
        self.can_be_planned = (
            schema["scope"] != "local"
            and self.uses <= {*_FIELDS, *_FLAGS, "dtype", "out_dtype"}
            and len(read) <= 1
            and len(has_packed) <= 1
        )

    def extents(self, codes: tuple[int, int]) -> tuple[Extent, Extent]:
        """Of what is read and of what is written."""
        read, written = (
            ("", "", 0) if each is None else (each["shape"], each.get("only_on", ""), code)
            for each, code in zip((self.read, self.written), codes, strict=True)
        )
        return read, written


@cache
def kinds() -> dict[str, Kind]:
    """Those that there are, by name."""
    made = [Kind(each) for each in schemas().values()]
    return {each.name: each for each in made if each.can_be_planned}


class Plan(Here):
    """A validated plan of one communicator: :meth:`libsk.Comm.plan` makes it. Immutable."""

    __slots__ = (
        "__weakref__",
        "_handle",
        "kind",
        "_kind",
        "_code",
        "_out_code",
        "_fields",
        "_world_size",
        "_place",
    )

    def __init__(
        self,
        handle: _core.Plan,
        kind: Kind,
        codes: tuple[int, int],
        fields: dict[str, int],
        world_size: int,
        place: Place,
    ) -> None:
        self._handle = handle
        self._kind = kind
        self.kind = kind.name
        """The operation, as given to ``comm.plan()``."""
        self._code, self._out_code = codes
        self._fields = fields
        self._world_size = world_size
        self._place = place

    def dump(self) -> str:
        """All ranks' tasks as text; :func:`libsk.check_plan` reads it back, and
        :meth:`libsk.Comm.parse_plan` makes a plan of it."""
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
        contiguous, and ``weights`` is B, of :meth:`libsk.Comm.pack`. "barrier" takes no arrays; of
        "send_recv" the sender gives ``x`` and the receiver ``out``, and other ranks return at once.
        Memory is as planned: ``out`` is ``x`` where the plan is in place, and only there.
        """
        if weights is None and dtype is None and stream is None and timeout is None:
            quick = self._handle.try_run(x, out)
            if quick is not None:
                return quick
        limit = milliseconds(timeout)
        kind = self._kind
        if weights is not None and not isinstance(weights, Packed):
            raise invalid(f"weights is {shown(weights)}; give what comm.pack() returns")
        if (weights is not None) != kind.takes_weights:
            names = " or ".join(each.name for each in kinds().values() if each.takes_weights)
            raise invalid(f"weights (of comm.pack()) belong to a plan of {names}, and only it")
        packed = weights._handle if weights is not None else None
        if kind.read is None or kind.written is None:
            if x is not None or out is not None:
                raise invalid(f"a {self.kind} takes no arrays")
            call = self._place.begin(stream)
            call.run(self._handle.run, _NOTHING, None, _NOTHING, call.stream, limit)
            return None
        call = self._place.begin(stream, (x, out))
        source, is_of_all = None, not kind.read.get("only_on") or not kind.written.get("only_on")
        if is_of_all and kind.written.get("only_on") and not self._is_here(kind.written):
            source = call.row_major(x, "x", dtype)
            self._check_input(source.code, source.count)
            call.run(self._handle.run, source.span, None, _NOTHING, call.stream, limit)
            return None
        is_dealt = kind.read.get("only_on") and kind.read["shape"].startswith("world *")
        is_of_all &= not is_dealt or self._is_here(kind.read)
        if x is not None:
            source = call.row_major(x, "x", dtype)
            self._check_input(source.code, source.count)
        elif is_of_all:
            raise invalid("x is None; give the input of the plan")
        if not is_of_all and out is None:
            memory = source.span if source else _NOTHING
            call.run(self._handle.run, memory, None, _NOTHING, call.stream, limit)
            return None
        shape = self._result_shape(call, source, out)
        alike = source is not None and shape == source.shape
        result = call.output(out, x, self._out_code, shape, source if alike else None)
        memory = source.span if source else _NOTHING
        with writing(result):
            call.run(self._handle.run, memory, packed, result.operand.span, call.stream, limit)
        return result.finish()

    def _is_here(self, operand: Schema) -> bool:
        """Whether this rank is the one that has it."""
        return self._fields[operand["only_on"]] == self._handle.rank

    def _check_input(self, code: int, count: int) -> None:
        assert self._kind.read is not None
        wanted = math.prod(self._extents(self._kind.read))
        if code != self._code:
            names = _dtypes.NAMES
            raise invalid(f"x has dtype {names[code]}; the plan is for {names[self._code]}")
        if count != wanted:
            raise invalid(f"x has {count} elements; the plan is for {wanted}")

    def _result_shape(self, call: Call, source: Any, out: Any) -> tuple[int, ...]:
        read, written = self._kind.read, self._kind.written
        assert read is not None and written is not None
        extents = self._extents(written)
        if len(extents) > 1:
            return extents
        if out is not None:
            shape = call.target(out, self._code).shape
            if math.prod(shape) != extents[0]:
                raise invalid(f"out has {math.prod(shape)} elements; the plan is for {extents[0]}")
            return shape
        if written["shape"] == read["shape"]:
            return source.shape
        is_of_all = written["shape"].startswith("world *")
        return (self._world_size, *source.shape) if is_of_all else extents

    def _extents(self, operand: Schema) -> tuple[int, ...]:
        """By its shape, ``"world * m, n"``."""
        known = {**self._fields, "world": self._world_size}
        return tuple(
            math.prod(known[factor] for factor in axis.split(" * "))
            for axis in operand["shape"].split(", ")
        )

    def __repr__(self) -> str:
        return f"<libsk.Plan: {self.kind} {_dtypes.NAMES[self._code]}>"


def make_plan(
    comm: _core.Comm,
    world_size: int,
    place: Place,
    kind: str,
    dtype: Any,
    out_dtype: Any,
    given: dict[str, Any],
    flags: dict[str, Any],
) -> Plan:
    """``sk_plan_create()``. ``given`` are dimensions and attributes; 0 and None are not given."""
    code = None if dtype is None else _dtypes.of_any(dtype)
    out_code = 0 if out_dtype is None else _dtypes.of_any(out_dtype, "out_dtype")
    op = None if given["op"] is None else op_code(given["op"])
    found = kinds().get(kind) if isinstance(kind, str) else None
    if found is None:
        raise invalid(f"kind is {shown(kind)}; allowed is {', '.join(kinds())}")
    has_type = found.written is not None
    planned = code if code is not None else _dtypes.F32
    if has_type and not found.has_out_dtype and out_code not in (0, planned):
        names = _dtypes.NAMES
        others = " and ".join(each.name for each in kinds().values() if each.has_out_dtype)
        raise invalid(
            f"out_dtype is {names[out_code]}, and {kind} gives what it takes, {names[planned]};"
            f" only {others} have a type of their own for the result"
        )
    bits = sum(1 << place for place, name in enumerate(_FLAGS) if is_given(flags[name], name))
    fields = {name: _field(name, value) for name, value in given.items() if name != "op"}
    # A product that ends in a sum is of that one anyway.
    is_usual = found.has_out_dtype and "op" not in found.uses and op == _SUM and _sums(found)
    _refuse_unused(
        found,
        {
            "dtype": code or 0,
            "out_dtype": out_code if out_code != planned or not has_type else 0,
            "op": 0 if is_usual else op or 0,
            **fields,
            **{name: bits >> place & 1 for place, name in enumerate(_FLAGS)},
        },
    )
    fields["op"] = (op or _SUM) if "op" in found.uses else 0
    codes = (planned, out_code or planned)
    desc = {
        **fields,
        "kind": found.number,
        "dtype": planned if has_type else 0,
        "out_dtype": out_code,
        "flags": bits,
    }
    handle = _core.Plan(comm, desc, *found.extents(codes))
    return Plan(handle, found, codes, fields, world_size, place)


def _field(name: str, value: Any) -> int:
    if any(each["name"] == name for kind in kinds().values() for each in kind.numbers):
        return index_of(value, name)
    return integer(value, name, "a number of elements, 0 or more", end=2**63)


def _sums(kind: Kind) -> bool:
    return "sum(r)" in schemas()[kind.name].get("meaning", "")


def _refuse_unused(kind: Kind, given: dict[str, int]) -> None:
    """What is given was meant for something."""
    for name, value in given.items():
        if value and name not in kind.uses:
            raise invalid(f"{name} is given, and a plan of {kind.name} has none")


def parse_plan(comm: _core.Comm, world_size: int, place: Place, text: str) -> Plan:
    """``sk_plan_parse()``."""
    given: list[Any] = []

    def read(written: str) -> tuple[dict[str, int], Extent, Extent]:
        """Of what the library understood, in the one form in which it writes that."""
        kind, codes, fields = _of_op_line(written)
        given[:] = kind, codes, fields
        return fields, *kind.extents(codes)

    handle = _core.Plan(comm, text_of(text, "text", _A_TEXT), read)
    return Plan(handle, *given, world_size, place)


def _of_op_line(text: str) -> tuple[Kind, tuple[int, int], dict[str, int]]:
    """The kind of a plan's text, its operands' types, and its fields."""
    _, line, _ = text.split("\n", 2)
    words = dict(word.split("=", 1) for word in line.split()[1:])
    kind = kinds().get(words["kind"])
    if kind is None:
        raise UnsupportedError(
            f"text is a plan of {words['kind']}; plans that can be run are of {', '.join(kinds())}",
            12,
            "SK_ERR_UNSUPPORTED",
        )
    read, written = (
        _dtypes.F32 if each is None else _dtypes.of_any(words[f"{each['name']}.dtype"])
        for each in (kind.read, kind.written)
    )
    fields = {name: int(words[name]) for name in kind.uses & words.keys() & _FIELDS if name != "op"}
    return kind, (read, written), fields


_A_TEXT = "a plan's text, as plan.dump() writes it"


def check_plan(text: str) -> None:
    """Parses and validates a plan's text, and runs nothing.

    It returns nothing. ``InvalidArgumentError`` names the line that cannot be read, or the rule
    that the plan breaks.
    """
    _core.plan_check(text_of(text, "text", _A_TEXT))
