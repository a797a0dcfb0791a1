"""Operations of ranks by their schemas: what the methods of ``libsk._collectives`` call, which are
written from those.

Each takes one array and gives one, of ``count`` elements or of as many for every rank, or takes
matrices and gives one. Nothing is looked up before the first call: a rank that only prints needs
neither schemas nor NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

from libsk import _core
from libsk._checks import index_of, is_given, milliseconds, op_code, shape_of
from libsk._errors import invalid
from libsk._lazy import Lazy
from libsk._schemas import Schema, of_role, schemas

if TYPE_CHECKING:
    from libsk import _dtypes, _gemm, _numbers, _outputs, _place
else:
    _dtypes = Lazy("libsk._dtypes")
    _gemm = Lazy("libsk._gemm")
    _numbers = Lazy("libsk._numbers")
    _outputs = Lazy("libsk._outputs")

_NONE, _ONE, _OF_ALL = 0, 1, 2
"""Whose operand it is not; of ``count`` elements; of that for every rank."""
_NUMBERS = {"redop": 1, "rank": 2}
"""What the extension module reads by itself."""
_NOTHING = (0, 0)
"""The span of an operand that this rank has not."""


class Ranks(Protocol):
    """A communicator, as calls need it."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def _handle(self) -> _core.Comm: ...
    @property
    def _place(self) -> _place.Place: ...


class _First:
    """Stands for an operation's core until that is asked for the first time."""

    def __init__(self, operation: _Operation) -> None:
        self._operation = operation

    def __getattr__(self, name: str) -> Any:
        self._operation.know()
        return getattr(self._operation.core, name)


class _Operation:
    """What is known of one is found when it is first used, and lies here then."""

    schema: Schema

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_known = False
        self.core: Any = _First(self)
        """Its object in the extension module. ``run()`` of vectors is the whole call where all of
        it is of the common kind, and None where it is not."""

    def know(self) -> None:
        """Looks it up."""
        if not self.is_known:
            self._describe(schemas()[self._name])
            self.is_known = True

    def _describe(self, schema: Schema, by_number: bool = False) -> None:
        """Sets the rest. ``by_number``: as if it had no function in sk/op.h."""
        raise NotImplementedError


class Vectors(_Operation):
    """One array in, one out; ``core.run(handle, x, out, value)``."""

    def _describe(self, schema: Schema, by_number: bool = False) -> None:
        (read,), (written,) = of_role(schema, "in"), of_role(schema, "out")
        self._in, self._out = _copies(read), _copies(written)
        self._is_like = self._in == self._out == _ONE
        self._is_part = bool(read.get("alias")), bool(written.get("alias"))
        attributes = schema["attributes"]
        # Of the root alone: what is written, or parts for every rank.
        self._is_given_to_one = bool(written.get("only_on"))
        self._is_of_one = bool(read.get("only_on")) and self._in == _OF_ALL
        self._root = next((i for i, each in enumerate(attributes) if each["kind"] == "rank"), 0)
        known = next((each for each in attributes if each["kind"] in _NUMBERS), None)
        fields = {each["of"]: each for each in schema["fields"]}
        self._attributes = [
            (each["name"], each["kind"], each is known, fields[each["name"]]["offset"], size)
            for each in attributes
            for size in [4 if fields[each["name"]]["kind"] == "int32" else 8]
        ]
        self.core = _vector_op(schema, self._name, self._in, self._out, known, None, by_number)
        readers = {"redop": op_code, "rank": index_of}
        is_one = known is not None and len(attributes) == 1
        self._reader = readers[known["kind"]] if is_one else None
        self.schema = schema

    def call(
        self,
        comm: Ranks,
        x: Any,
        out: Any,
        values: tuple[Any, ...],
        dtype: Any,
        stream: Any,
        timeout: float | None,
    ) -> Any:
        """The long way, which takes whatever can be made an array."""
        if not self.is_known:
            self.know()
        call = comm._place.begin(stream, (x, out))
        if self._is_given_to_one or self._is_of_one:
            is_root = index_of(values[self._root], "root") == comm.rank
            if not is_root:
                return self._at_others(comm, call, x, out, values, dtype, timeout)
        source = call.row_major(x, "x", dtype)
        shape, count = source.shape, source.count
        if self._is_like:
            result = call.output(out, x, source.code, shape, source)
        else:
            shape = self._shape_of(shape, comm.world_size)
            is_alike = self._in == self._out and self._is_part[1]
            result = call.output(out, x, source.code, shape, source if is_alike else None)
        given = source
        if self._is_part[0]:
            given = _outputs.gathered(source, result, comm.rank)
        elif self._is_part[1] and self._in != self._out:
            result = _outputs.scattered(source, result, comm.rank)
        if self._in == _OF_ALL:
            count //= comm.world_size
        if self._reader is not None:
            numbers = self._reader(values[0], self._attributes[0][0]), None
        else:
            numbers = self._numbers(values)
        with _outputs.writing(result):
            call.run(
                self.core.call,
                comm._handle,
                given.span,
                result.operand.span,
                count,
                source.code,
                *numbers,
                call.stream,
                milliseconds(timeout),
            )
        return result.finish()

    def _at_others(
        self,
        comm: Ranks,
        call: _place.Call,
        x: Any,
        out: Any,
        values: tuple[Any, ...],
        dtype: Any,
        timeout: float | None,
    ) -> Any:
        """Where only the root has the result, or what is dealt out."""
        given, result = _NOTHING, None
        count: int
        code: int
        if self._is_given_to_one:
            source = call.row_major(x, "x", dtype)
            given, count, code = source.span, source.count, source.code
        elif x is not None:
            like = call.row_major(x, "x", dtype)
            shape = self._shape_of(like.shape, comm.world_size)
            result = call.output(out, x, like.code, shape)
            count, code = result.operand.count, like.code
        elif out is not None:
            target = call.operand(out, "out", dtype)
            result = call.output(out, out, target.code, target.shape)
            count, code = target.count, target.code
        else:
            raise invalid(
                "x and out are both None; on a rank that is not the root give out, or an x of the"
                " root's shape and type"
            )
        memory = _NOTHING if result is None else result.operand.span
        numbers: tuple[int, Any]
        if self._reader is not None:
            numbers = self._reader(values[0], self._attributes[0][0]), None
        else:
            numbers = self._numbers(values)
        with _outputs.writing(*(() if result is None else (result,))):
            call.run(
                self.core.call,
                comm._handle,
                given,
                memory,
                count,
                code,
                *numbers,
                call.stream,
                milliseconds(timeout),
            )
        return None if result is None else result.finish()

    def _shape_of(self, shape: tuple[int, ...], world_size: int) -> tuple[int, ...]:
        """Of the result."""
        if self._in == _OF_ALL and (not shape or shape[0] % world_size):
            raise invalid(
                f"x has shape {shape}; its first dimension must be a multiple of the"
                f" {world_size} ranks"
            )
        if self._in == self._out:
            return shape
        if self._out == _OF_ALL:
            return (world_size, *shape)
        return (shape[0] // world_size, *shape[1:])

    def _numbers(
        self, values: tuple[Any, ...]
    ) -> tuple[int, tuple[list[tuple[int, float]], list[tuple[int, int, int]]] | None]:
        """The one that the extension module knows; by their places the other floats and
        integers."""
        known, floats, integers = 0, [], []
        for (name, kind, is_known, offset, size), value in zip(
            self._attributes, values, strict=True
        ):
            if kind == "redop":
                number = op_code(value, name)
            elif kind == "rank":
                number = index_of(value, name)
            elif kind == "bool":
                number = int(is_given(value, name))
            elif kind == "float":
                floats.append((offset, _numbers.number_of(value, name)))
                continue
            else:
                number = _numbers.integer_of(value, name, size)
            if is_known:
                known = number
            else:
                integers.append((offset, size, number))
        return known, (floats, integers)


class Meeting(_Operation):
    """No array; ``core.meet(handle, stream, milliseconds)``."""

    def _describe(self, schema: Schema, by_number: bool = False) -> None:
        self.core = _vector_op(schema, self._name, _NONE, _NONE, None, None, by_number)
        self.schema = schema

    def call(self, comm: Ranks, stream: Any, timeout: float | None) -> None:
        """On a stream."""
        self.know()
        call = comm._place.begin(stream)
        call.run(self.core.meet, comm._handle, call.stream, milliseconds(timeout))


class Giving(_Operation):
    """The end of a pair's operation that has what is read; ``core.run(handle, x, None, peer)``."""

    def __init__(self, name: str, method: str) -> None:
        super().__init__(name)
        self._method = method

    def _describe(self, schema: Schema, by_number: bool = False) -> None:
        own, other = schema["attributes"]
        self.core = _vector_op(schema, self._method, _ONE, _NONE, other, own, by_number)
        self.schema = schema

    def call(
        self, comm: Ranks, x: Any, peer: Any, dtype: Any, stream: Any, timeout: float | None
    ) -> None:
        """The long way."""
        self.know()
        call = comm._place.begin(stream, (x,))
        source = call.row_major(x, "x", dtype)
        number = index_of(peer, "peer")
        memory = (source.span, _NOTHING, source.count, source.code, number, None)
        call.run(self.core.call, comm._handle, *memory, call.stream, milliseconds(timeout))


class Taking(_Operation):
    """The other end, which has what is written; ``core.run(handle, None, out, peer)``."""

    def __init__(self, name: str, method: str) -> None:
        super().__init__(name)
        self._method = method

    def _describe(self, schema: Schema, by_number: bool = False) -> None:
        other, own = schema["attributes"]
        self.core = _vector_op(schema, self._method, _NONE, _ONE, other, own, by_number)
        self.schema = schema

    def call(
        self,
        comm: Ranks,
        out: Any,
        peer: SupportsIndex | None,
        shape: SupportsIndex | Sequence[SupportsIndex] | None,
        dtype: Any,
        stream: Any,
        timeout: float | None,
    ) -> Any:
        """The long way: into ``out``, or a new array."""
        self.know()
        name = self._method
        if peer is None:
            raise invalid("peer is missing; say which rank sends")
        call = comm._place.begin(stream, (out,))
        if out is None:
            if shape is None or dtype is None:
                raise invalid(f"give {name}() either out, or both shape and dtype")
            result = call.output(None, None, _dtypes.of_any(dtype), shape_of(shape))
        elif shape is not None:
            raise invalid(f"give {name}() either out or shape, not both")
        else:
            target = call.operand(out, "out", dtype)
            result = call.output(out, out, target.code, target.shape)
        memory = result.operand
        number = index_of(peer, "peer")
        given = (_NOTHING, memory.span, memory.count, memory.code, number, None)
        with _outputs.writing(result):
            call.run(self.core.call, comm._handle, *given, call.stream, milliseconds(timeout))
        return result.finish()


class Matrices(_Operation):
    """Matrices in, one out."""

    def _describe(self, schema: Schema, by_number: bool = False) -> None:
        self.core = _gemm.Product(schema, self._name, by_number)
        self.schema = schema

    def call(
        self,
        comm: Ranks,
        stream: Any,
        arrays: tuple[Any, ...],
        values: tuple[Any, ...],
        out: Any,
        out_dtype: Any,
        dtype: Any,
        timeout: float | None,
    ) -> Any:
        """The one way: :class:`libsk._gemm.Product`'s."""
        call = comm._place.begin(stream, (*arrays, out))
        world_size, handle = comm.world_size, comm._handle
        return self.core.multiply(
            call, handle, world_size, arrays, values, out, out_dtype, dtype, timeout
        )


def is_on_all(schema: Schema) -> bool:
    """Whether each rank gives an array and gets one."""
    (read,), (written,) = of_role(schema, "in"), of_role(schema, "out")
    is_dealt = bool(read.get("only_on")) and _copies(read) == _OF_ALL
    return not is_dealt and not written.get("only_on")


def _copies(operand: Schema) -> int:
    return _OF_ALL if operand["shape"].startswith("world *") else _ONE


def _vector_op(
    schema: Schema,
    name: str,
    read: int,
    written: int,
    value: Schema | None,
    own: Schema | None,
    by_number: bool,
) -> _core.VectorOp:
    offsets = {each["of"]: each["offset"] for each in schema["fields"]}

    def row(role: str, copies: int) -> tuple[int, int]:
        return (offsets[of_role(schema, role)[0]["name"]] if copies else 0, copies)

    is_quick = len(schema["attributes"]) <= (1 if own is None else 2)
    if own is None and schema["operands"]:
        is_quick &= is_on_all(schema)
    return _core.VectorOp(
        schema["id"],
        name,
        schema["bytes"],
        row("in", read),
        row("out", written),
        0 if value is None else offsets[value["name"]],
        0 if own is None else offsets[own["name"]],
        3 if not is_quick else 0 if value is None else _NUMBERS[value["kind"]],
        by_number,
    )
