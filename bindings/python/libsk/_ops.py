"""Operations that need no other ranks, as functions; they run on all cores of this process.

Arrays are NumPy's, or anything with ``__dlpack__`` on the CPU; where an operand has rows, an array
may have any number of dimensions, whose last is a row. Any thread may call; such calls come one
after another. ``dtype`` says what uint16 holds (``"bf16"``), in whichever of a call's arrays.

What is row-major is read and written where it lies, and so are arrays of one place in all lists
that lie alike and without gaps, as torch's ``channels_last`` does; others are copied for the call.

Written by tools/make_python_ops.py from the library's schemas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, SupportsFloat, SupportsIndex, overload

from libsk._context import Context
from libsk._local import LocalFunction
from libsk._types import ArrayT

__all__ = [
    "rmsnorm",
    "rmsnorm_backward",
    "add_rmsnorm",
    "adamw",
]


_rmsnorm = LocalFunction("rmsnorm")


@overload
def rmsnorm(
    x: ArrayT,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: ArrayT | None = None,
    *,
    return_rstd: Literal[False] = False,
    dtype: Any = None,
    context: Context | None = None,
) -> ArrayT: ...
@overload
def rmsnorm(
    x: ArrayT,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: ArrayT | None = None,
    *,
    return_rstd: Literal[True],
    dtype: Any = None,
    context: Context | None = None,
) -> tuple[ArrayT, Any]: ...
@overload
def rmsnorm(
    x: Any,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: Any = None,
    *,
    return_rstd: bool = False,
    dtype: Any = None,
    context: Context | None = None,
) -> Any: ...
def rmsnorm(
    x: Any,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: Any = None,
    *,
    return_rstd: bool = False,
    dtype: Any = None,
    context: Context | None = None,
) -> Any:
    """y[i, j] = x[i, j] * rstd[i] * weight[j], where rstd[i] = 1 / sqrt(mean over j of x[i, j]^2 +
    eps).

    Computed in f32, of f64 in f64, and rounded once; without a weight it is 1.

    ``x``: shape (..., n), f32, f64, bf16 or f16
    ``weight``: [n], of x's type or f32
    ``eps``: 0 to inf; added to the mean of squares, in the type of sums; usually 1e-5
    ``out``: the array for y: shape (..., n), of x's type, may be x
    ``return_rstd``: whether rstd is returned too: [m], of the type of sums of x, what each row was
        multiplied by, for the gradient

    Rows have one element at least.

    Source: B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019.
    """
    return _rmsnorm(
        context,
        dtype,
        (x, weight),
        (eps,),
        (out, return_rstd),
    )


_rmsnorm_backward = LocalFunction("rmsnorm_backward")


@overload
def rmsnorm_backward(
    x: ArrayT,
    dy: Any,
    rstd: Any,
    weight: Any = None,
    out: ArrayT | None = None,
    *,
    return_dweight: Literal[False] = False,
    dtype: Any = None,
    context: Context | None = None,
) -> ArrayT: ...
@overload
def rmsnorm_backward(
    x: ArrayT,
    dy: Any,
    rstd: Any,
    weight: Any = None,
    out: ArrayT | None = None,
    *,
    return_dweight: Literal[True],
    dtype: Any = None,
    context: Context | None = None,
) -> tuple[ArrayT, Any]: ...
@overload
def rmsnorm_backward(
    x: Any,
    dy: Any,
    rstd: Any,
    weight: Any = None,
    out: Any = None,
    *,
    return_dweight: bool = False,
    dtype: Any = None,
    context: Context | None = None,
) -> Any: ...
def rmsnorm_backward(
    x: Any,
    dy: Any,
    rstd: Any,
    weight: Any = None,
    out: Any = None,
    *,
    return_dweight: bool = False,
    dtype: Any = None,
    context: Context | None = None,
) -> Any:
    """The gradients of rmsnorm: dx[i, j] = rstd[i] * (dy[i, j] * weight[j] - x[i, j] * rstd[i]^2 *
    mean over k of dy[i, k] * weight[k] * x[i, k]), dweight[j] = sum over i of dy[i, j] * x[i, j] *
    rstd[i].

    Sums have one order, whatever the number of workers.

    ``x``: shape (..., n), f32, f64, bf16 or f16
    ``dy``: shape (..., n), of x's type
    ``rstd``: [m], of the type of sums of x, as rmsnorm left it
    ``weight``: [n], of x's type or f32
    ``out``: the array for dx: shape (..., n), of x's type
    ``return_dweight``: whether dweight is returned too: [n], of x's type or f32

    Rows have one element at least.

    Source: B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019.
    """
    return _rmsnorm_backward(
        context,
        dtype,
        (x, dy, rstd, weight),
        (),
        (out, return_dweight),
    )


_add_rmsnorm = LocalFunction("add_rmsnorm")


@overload
def add_rmsnorm(
    x: ArrayT,
    residual: Any,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: ArrayT | None = None,
    out_total: ArrayT | None = None,
    *,
    return_rstd: Literal[False] = False,
    dtype: Any = None,
    context: Context | None = None,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def add_rmsnorm(
    x: ArrayT,
    residual: Any,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: ArrayT | None = None,
    out_total: ArrayT | None = None,
    *,
    return_rstd: Literal[True],
    dtype: Any = None,
    context: Context | None = None,
) -> tuple[ArrayT, ArrayT, Any]: ...
@overload
def add_rmsnorm(
    x: Any,
    residual: Any,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: Any = None,
    out_total: Any = None,
    *,
    return_rstd: bool = False,
    dtype: Any = None,
    context: Context | None = None,
) -> Any: ...
def add_rmsnorm(
    x: Any,
    residual: Any,
    weight: Any = None,
    eps: SupportsFloat = 1e-5,
    out: Any = None,
    out_total: Any = None,
    *,
    return_rstd: bool = False,
    dtype: Any = None,
    context: Context | None = None,
) -> Any:
    """total[i, j] = x[i, j] + residual[i, j], and y[i, j] = total[i, j] * rstd[i] * weight[j],
    where rstd[i] = 1 / sqrt(mean over j of total[i, j]^2 + eps): in one pass.

    The total is rounded to its type before it is normalised, as if it had been read again; the
    gradient of y is rmsnorm's, by the total.

    ``x``: shape (..., n), f32, f64, bf16 or f16
    ``residual``: shape (..., n), of x's type
    ``weight``: [n], of x's type or f32
    ``eps``: 0 to inf; added to the mean of squares, in the type of sums; usually 1e-5
    ``out``: the array for y: shape (..., n), of x's type, may be x
    ``out_total``: the array for total: shape (..., n), of residual's type, may be residual
    ``return_rstd``: whether rstd is returned too: [m], of the type of sums of x, what each row was
        multiplied by, for the gradient

    Rows have one element at least.

    Source: B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019.
    """
    return _add_rmsnorm(
        context,
        dtype,
        (x, residual, weight),
        (eps,),
        (out, out_total, return_rstd),
    )


_adamw = LocalFunction("adamw")


def adamw(
    params: Iterable[Any],
    grads: Iterable[Any],
    ms: Iterable[Any],
    vs: Iterable[Any],
    lr: SupportsFloat,
    step: SupportsIndex | SupportsFloat,
    beta1: SupportsFloat = 0.9,
    beta2: SupportsFloat = 0.999,
    eps: SupportsFloat = 1e-8,
    weight_decay: SupportsFloat = 0.01,
    *,
    dtype: Any = None,
    context: Context | None = None,
) -> None:
    """A step of AdamW for all tensors of the lists, in their place.

    m = m * beta1 + g * (1 - beta1), v = v * beta2 + g^2 * (1 - beta2), p = p * (1 - lr *
    weight_decay) - m * (lr / (1 - beta1^step)) / (sqrt(v) / sqrt(1 - beta2^step) + eps). Numbers
    are computed in doubles and rounded to f32, of f64 not at all; elements in that, each operation
    rounded, so that all processors give the same bits (but a NaN's sign and payload).

    ``params``: a list of arrays, f32, f64, bf16 or f16, overwritten
    ``grads``: a list of arrays, of params's type or f32
    ``ms``: a list of arrays, of the type of sums of params, the gradients' moving averages, 0
        before the first step, overwritten
    ``vs``: a list of arrays, of the type of sums of params, 0 or more, those of their squares, 0
        before the first step, overwritten
    ``lr``: 0 to inf; the learning rate of this step; another one is no other plan
    ``step``: 1 or more; the number of this step, from 1; another one is no other plan
    ``beta1``: 0 to 0.9999999999999999; what ms keeps of itself; usually 0.9
    ``beta2``: 0 to 0.9999999999999999; what vs keeps of itself; usually 0.999
    ``eps``: 0 to inf; added to the root of vs; usually 1e-8
    ``weight_decay``: 0 to inf; how much of params goes, times lr; usually 0.01

    Source: I. Loshchilov, F. Hutter: Decoupled Weight Decay Regularization, 2019.
    """
    _adamw(
        context,
        dtype,
        (params, grads, ms, vs),
        (lr, step, beta1, beta2, eps, weight_decay),
        (),
    )
