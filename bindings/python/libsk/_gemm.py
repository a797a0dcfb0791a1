"""Products fused with collectives, and packed weights: matrices as the C ABI wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from libsk import _core, _dtypes
from libsk._checks import is_given, milliseconds
from libsk._errors import Error, UnsupportedError, invalid
from libsk._here import Here
from libsk._outputs import writing
from libsk._schemas import Schema, of_role

if TYPE_CHECKING:
    from libsk._operand import Operand, Span
    from libsk._place import Call

_TRANSPOSE_B = 2

Matrix = tuple["Span", int, int, int, int]
"""Span, dtype, rows, columns, elements from row to row."""


class Packed(Here):
    """Weights laid out for this CPU: what ``comm.pack()`` returns. Immutable."""

    __slots__ = ("__weakref__", "_handle", "_code", "_shape")

    def __init__(self, handle: _core.Packed, code: int, shape: tuple[int, int]) -> None:
        self._handle = handle
        self._code = code
        self._shape = shape

    @property
    def shape(self) -> tuple[int, int]:
        """(K, N)."""
        return self._shape

    @property
    def dtype(self) -> str:
        """The element type, ``"f32"``."""
        return _dtypes.NAMES[self._code]

    def __repr__(self) -> str:
        return f"<libsk.Packed: {self._shape[0]} x {self._shape[1]} {self.dtype}>"


def _matrix(
    call: Call, x: Any, what: str, transpose: bool, dtype: Any, may_turn: bool = True
) -> tuple[Matrix, bool, Operand]:
    """The matrix, whether it holds the transpose, and what must stay alive during the call."""
    found = call.operand(x, what, dtype)
    if len(found.shape) != 2:
        raise invalid(f"{what} has shape {found.shape}; it must be a matrix, of two dimensions")
    if found.strides is not None:
        if found.is_aligned:
            size = found.itemsize
            (rows, columns), (row_step, column_step) = found.shape, found.strides
            if column_step == size and row_step >= columns * size:
                matrix = (found.span, found.code, rows, columns, row_step // size)
                return matrix, transpose, found
            if may_turn and row_step == size and column_step >= rows * size:  # A transposed view.
                matrix = (found.span, found.code, columns, rows, column_step // size)
                return matrix, not transpose, found
        found = call.contiguous(found, what)
    rows, columns = found.shape
    return (found.span, found.code, rows, columns, max(1, columns)), transpose, found


def _logical(matrix: Matrix, transpose: bool) -> tuple[int, int]:
    return (matrix[3], matrix[2]) if transpose else (matrix[2], matrix[3])


def pack(handle: _core.Comm, call: Call, b: Any, transpose: bool, dtype: Any) -> Packed:
    """``sk_pack()``."""
    matrix, transposed, keep = _matrix(call, b, "b", transpose, dtype)
    flags = _TRANSPOSE_B if transposed else 0
    packed = call.complete(_core.Packed, handle, matrix, flags)
    return Packed(packed, keep.code, _logical(matrix, transposed))


class Product:
    """An operation of ranks on matrices, by its schema; what calls need of that is looked up once.

    Its attributes are flags, of which some say that a matrix holds the transpose.
    """

    def __init__(self, schema: Schema, name: str, by_number: bool) -> None:
        inputs, (made,) = of_role(schema, "in"), of_role(schema, "out")
        packed = {
            each["of"]: each["offset"] for each in schema["fields"] if each["kind"] == "packed"
        }
        places = {each["of"]: each["offset"] for each in schema["fields"]}
        tensors = {
            each["of"]: each["offset"] for each in schema["fields"] if each["kind"] == "tensor"
        }
        flags = [each["name"] for each in schema["attributes"]]
        self._flags = flags
        bits = {flag: 1 << place for place, flag in enumerate(flags)}
        self._inputs = [
            (
                each["name"],
                *each["shape"].split(", "),
                each["name"] in packed,
                bits.get(each.get("turned_by", ""), 0),
                each.get("turned_by", ""),
            )
            for each in inputs
        ]
        names = [each["name"] for each in inputs]
        self._same = [
            (place, names.index(each["types"]))
            for place, each in enumerate(inputs)
            if each["types"] in names
        ]
        self._names = names
        first, *others = made["types"].split("|")
        if first != names[0]:
            raise UnsupportedError(
                f"{name}(): a result of {first}'s type", 12, "SK_ERR_UNSUPPORTED"
            )
        self._others = {_dtypes.of_any(rule): rule for rule in others}
        self._rows, self._columns = made["shape"].split(", ")
        self._of_all = self._rows.startswith("world * ")
        self._rows = self._rows.removeprefix("world * ")
        rows = [(tensors[name], packed.get(name, 0), name) for name in names]
        rows.append((tensors[made["name"]], 0, "out"))
        self.core = _core.MatrixOp(
            schema["id"],
            name,
            schema["bytes"],
            rows,
            [places[flag] for flag in flags],
            by_number,
        )

    def multiply(
        self,
        call: Call,
        handle: _core.Comm,
        world_size: int,
        arrays: tuple[Any, ...],
        values: tuple[Any, ...],
        out: Any,
        out_dtype: Any,
        dtype: Any,
        timeout: float | None,
    ) -> Any:
        """One call; ``values`` are the flags."""
        bits = 0
        for place, value in enumerate(values):
            if value is not False and is_given(value, self._flags[place]):
                bits |= 1 << place
        limit = milliseconds(timeout)
        sizes: dict[str, int] = {}
        given: list[Any] = []
        kept: list[Any] = []
        shapes, codes = [], []
        for x, (name, row_axis, column_axis, may_pack, bit, turn) in zip(
            arrays, self._inputs, strict=True
        ):
            if may_pack and isinstance(x, Packed):
                if bits & bit:
                    raise invalid(f"{turn} belongs to pack(); packed weights know their layout")
                given.append(x._handle)
                shape, code = x._shape, x._code
            else:
                is_turned = bool(bits & bit)
                matrix, turned, keep = _matrix(call, x, name, is_turned, dtype, may_turn=bit != 0)
                if turned is not is_turned:
                    bits ^= bit
                given.append(matrix)
                kept.append(keep)
                shape, code = _logical(matrix, turned), keep.code
            shapes.append(shape)
            codes.append(code)
            if sizes.setdefault(row_axis, shape[0]) != shape[0]:
                raise self._do_not_fit(row_axis, shapes)
            if sizes.setdefault(column_axis, shape[1]) != shape[1]:
                raise self._do_not_fit(column_axis, shapes)
        for place, other in self._same:
            if codes[place] != codes[other]:
                raise self._differ(place, other, codes)
        code = codes[0]
        if out_dtype is not None:
            code = _dtypes.of_any(out_dtype, "out_dtype")
        elif out is not None:
            code = call.target(out, code).code
        if code != codes[0] and code not in self._others:
            raise self._is_no_result(code, codes[0], out_dtype)
        rows, columns = sizes[self._rows], sizes[self._columns]
        if self._of_all:
            rows *= world_size
        result = call.output(out, arrays[0], code, (rows, columns), rows_apart=True)
        memory = result.operand
        row_step = max(1, columns)
        if memory.strides is not None:
            row_step = memory.strides[0] // memory.itemsize
        given.append((memory.span, code, rows, columns, row_step))
        with writing(result):
            call.run(self.core.call, handle, given, bits, call.stream, limit)
        del kept
        return result.finish()

    def _do_not_fit(self, axis: str, shapes: list[tuple[int, int]]) -> Error:
        """The last of these has another size there than one before it."""
        last = len(shapes) - 1
        axes = [each[1:3] for each in self._inputs]
        other = next(place for place in range(len(shapes)) if axis in axes[place])
        its, own = (axes[place].index(axis) for place in (other, last))
        (one, one_size), (two, two_size) = (
            (self._names[place], " x ".join(map(str, shapes[place]))) for place in (other, last)
        )
        sides = ("rows", "columns")
        return invalid(
            f"{one} is {one_size} and {two} is {two_size};"
            f" {one}'s {sides[its]} and {two}'s {sides[own]} must be the same number"
        )

    def _differ(self, place: int, other: int, codes: list[int]) -> Error:
        names = _dtypes.NAMES
        return invalid(
            f"{self._names[other]} has dtype {names[codes[other]]} and {self._names[place]}"
            f" {names[codes[place]]}; give one type"
        )

    def _is_no_result(self, code: int, first: int, out_dtype: Any) -> Error:
        names = _dtypes.NAMES
        given = "out has dtype" if out_dtype is None else "out_dtype is"
        others = "".join(f", or {rule}" for rule in self._others.values())
        return invalid(
            f"{given} {names[code]}; it must be {names[first]}, as {self._names[0]}{others}"
        )
