"""Products fused with collectives, and packed weights: matrices as the C ABI wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from libsk import _core, _dtypes
from libsk._errors import invalid

if TYPE_CHECKING:
    from libsk._operand import Operand, Span
    from libsk._place import Call

_TRANSPOSE_A = 1
_TRANSPOSE_B = 2

Matrix = tuple["Span", int, int, int, int]
"""Span, dtype, rows, columns, elements from row to row."""


class Packed:
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
    call: Call, x: Any, what: str, transpose: bool, dtype: Any
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
            if row_step == size and column_step >= rows * size:  # A transposed view.
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


def multiply(
    function: Callable[..., None],
    blocks: int,
    handle: _core.Comm,
    call: Call,
    a: Any,
    b: Any,
    out: Any,
    transpose_a: bool,
    transpose_b: bool,
    out_dtype: Any,
    dtype: Any,
    timeout_ms: int,
) -> Any:
    """``function`` of ``_core``, whose result has ``blocks`` times as many rows as ``a``."""
    a_matrix, a_transposed, keep_a = _matrix(call, a, "a", transpose_a, dtype)
    rows, inner = _logical(a_matrix, a_transposed)
    flags = _TRANSPOSE_A if a_transposed else 0
    b_matrix, packed, keep_b = None, None, None
    if isinstance(b, Packed):
        if transpose_b:
            raise invalid("transpose_b belongs to pack(); packed weights know their layout")
        packed, b_code, b_shape = b._handle, b._code, b._shape
    else:
        b_matrix, b_transposed, keep_b = _matrix(call, b, "b", transpose_b, dtype)
        b_code, b_shape = keep_b.code, _logical(b_matrix, b_transposed)
        flags |= _TRANSPOSE_B if b_transposed else 0
    if b_shape[0] != inner:
        raise invalid(
            f"a is {rows} x {inner} and b is {b_shape[0]} x {b_shape[1]};"
            f" a's columns and b's rows must be the same number"
        )
    if b_code != keep_a.code:
        names = _dtypes.NAMES
        raise invalid(f"a has dtype {names[keep_a.code]} and b {names[b_code]}; give one type")
    code = keep_a.code if out_dtype is None else _dtypes.of_any(out_dtype, "out_dtype")
    if out is not None and out_dtype is None:
        code = call.target(out, code).code
    if code != keep_a.code and code != _dtypes.F32:
        given = "out has dtype" if out_dtype is None else "out_dtype is"
        names = _dtypes.NAMES
        raise invalid(f"{given} {names[code]}; it must be {names[keep_a.code]}, as a, or f32")
    columns = b_shape[1]
    result = call.output(out, a, code, (blocks * rows, columns), rows_apart=True)
    memory = result.operand
    row_step = max(1, columns)
    if memory.strides is not None:
        row_step = memory.strides[0] // memory.itemsize
    c_matrix = (memory.span, code, blocks * rows, columns, row_step)
    matrices = (a_matrix, b_matrix, packed, c_matrix)
    call.run(function, handle, *matrices, flags, call.stream, timeout_ms)
    del keep_a, keep_b
    return result.finish()
