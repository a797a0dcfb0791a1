"""Operations that need no other ranks: functions, which run on all cores of this process.

They are called by the library's own description of them: where in the struct of arguments each
operand and number stands. Any thread may call them; such calls come one after another.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

from libsk import _core, _dtypes
from libsk._checks import is_given, shown
from libsk._context import Context, default_context
from libsk._errors import UnsupportedError, invalid
from libsk._operand import Operand
from libsk._place import OnCpu

_CPU = OnCpu()
_FLOATS = (_dtypes.F32, _dtypes.F64, _dtypes.BF16, _dtypes.F16)


@cache
def _operations() -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(_core.describe_operations())}


def _call(
    context: Context | None, name: str, operands: dict[str, Operand | None], **numbers: float
) -> None:
    """``sk_call()``; an operand that is None is left out."""
    schema = _operations()[name]
    vectors = {each["name"]: "," not in each["shape"] for each in schema["operands"]}
    tensors, values = [], []
    for field in schema["fields"]:
        of, offset = field["of"], field["offset"]
        if of in numbers:
            values.append((offset, numbers[of]))
        elif operands.get(of) is not None:
            found = operands[of]
            rows, columns, step = _rows(found, vectors[of])
            tensors.append((offset, of, (found.span, found.code, rows, columns, step)))
    if context is None:
        context = default_context()
    elif not isinstance(context, Context):
        raise invalid(f"context is {shown(context)}; give a libsk.Context, or None")
    _core.call_alone(context._handle, schema["id"], schema["bytes"], tensors, values, [])


def _rows(found: Operand, vector: bool) -> tuple[int, int, int]:
    """Rows, columns, elements from row to row: 0 of a vector."""
    if vector:
        return 1, found.count, 0
    columns = found.shape[-1]
    rows = math.prod(found.shape[:-1])
    if found.strides is None:
        return rows, columns, max(1, columns)
    return rows, columns, found.strides[0] // found.itemsize


def _in_rows(x: Any, what: str, dtype: Any) -> Operand:
    """An operand whose last dimension is a row; of a matrix rows may lie apart."""
    found = _CPU.operand(x, what, dtype)
    if not found.shape:
        raise invalid(f"{what} is a number; it must have one dimension at least")
    if found.code not in _FLOATS:
        raise invalid(f"{what} has dtype {_dtypes.NAMES[found.code]}; give a floating type")
    if found.strides is not None and len(found.shape) == 2 and found.is_aligned:
        size = found.itemsize
        step, inner = found.strides
        if inner == size and step >= found.shape[1] * size:
            return found
    return found.contiguous()


def _like(x: Any, what: str, dtype: Any, shape: tuple[int, ...]) -> Operand:
    found = _in_rows(x, what, dtype)
    if found.shape != shape:
        raise invalid(f"{what} has shape {found.shape}; it must have {shape}, as x")
    return found


def _vector(x: Any, what: str, dtype: Any, count: int) -> Operand:
    found = _CPU.row_major(x, what, dtype)
    if found.shape != (count,):
        raise invalid(f"{what} has shape {found.shape}; it must have ({count},)")
    return found


def _number(value: Any, what: str) -> float:
    try:
        number = None if isinstance(value, str | bytes) else float(value)
    except Exception:  # noqa: BLE001 - of an object of whatever type.
        number = None
    if number is None:
        raise invalid(f"{what} is {shown(value)}; give a number")
    return number


def _sums_of(code: int) -> int:
    return _dtypes.F64 if code == _dtypes.F64 else _dtypes.F32


def _on_cpu(*arrays: Any) -> None:
    for each in arrays:
        device = getattr(each, "device", None)
        if getattr(device, "type", "cpu") != "cpu":
            raise UnsupportedError(
                f"an array is on {device}: local operations run on the CPU so far",
                12,
                "SK_ERR_UNSUPPORTED",
            )


def rmsnorm(
    x: Any,
    weight: Any = None,
    eps: float = 1e-5,
    out: Any = None,
    *,
    return_rstd: bool = False,
    dtype: Any = None,
    context: Context | None = None,
) -> Any:
    """Rows of ``x`` divided by their root mean square, and times ``weight``.

    ``y[..., j] = x[..., j] * rstd[...] * weight[j]``, where ``rstd = 1 / sqrt(mean(x**2) + eps)``
    over the last dimension. Computed in f32, of f64 in f64, and rounded once. ``weight`` has x's
    type or f32. ``out=x`` works in place. With ``return_rstd`` the result is ``(y, rstd)``, which
    :func:`rmsnorm_backward` wants.
    """
    _on_cpu(x, weight, out)
    source = _in_rows(x, "x", dtype)
    columns = source.shape[-1]
    by = None if weight is None else _vector(weight, "weight", None, columns)
    dense = source if source.strides is None else None
    result = _CPU.output(out, x, source.code, source.shape, dense)
    rstd = None
    if is_given(return_rstd, "return_rstd"):
        rstd = _CPU.output(None, _kind_of(x), _sums_of(source.code), source.shape[:-1] or (1,))
    _call(
        context,
        "rmsnorm",
        {
            "x": source,
            "y": result.operand,
            "weight": by,
            "rstd": None if rstd is None else rstd.operand,
        },
        eps=_number(eps, "eps"),
    )
    y = result.finish()
    return y if rstd is None else (y, rstd.finish())


def rmsnorm_backward(
    dy: Any,
    x: Any,
    rstd: Any,
    weight: Any = None,
    *,
    weight_grad: bool = True,
    dtype: Any = None,
    context: Context | None = None,
) -> Any:
    """The gradients of :func:`rmsnorm` by ``x`` and by the weight: ``(dx, dweight)``.

    ``rstd`` is what :func:`rmsnorm` returned. ``dweight`` has the type of ``weight``, or x's; it is
    None with ``weight_grad=False``. Its sums have one order, whatever the number of workers.
    """
    _on_cpu(dy, x, rstd, weight)
    source = _in_rows(x, "x", dtype)
    columns = source.shape[-1]
    slope = _like(dy, "dy", dtype, source.shape)
    if slope.code != source.code:
        names = _dtypes.NAMES
        raise invalid(f"dy has dtype {names[slope.code]}; it must have {names[source.code]}, as x")
    scale = _CPU.row_major(rstd, "rstd", None)
    by = None if weight is None else _vector(weight, "weight", None, columns)
    result = _CPU.output(None, x, source.code, source.shape)
    summed = None
    if is_given(weight_grad, "weight_grad"):
        code = source.code if by is None else by.code
        summed = _CPU.output(None, x if weight is None else weight, code, (columns,))
    _call(
        context,
        "rmsnorm_backward",
        {
            "x": source,
            "dy": slope,
            "rstd": scale,
            "dx": result.operand,
            "weight": by,
            "dweight": None if summed is None else summed.operand,
        },
    )
    return result.finish(), None if summed is None else summed.finish()


def _kind_of(x: Any) -> Any:
    """What a further result is like: not a number where x is a vector."""
    return x if hasattr(x, "shape") else [x]
