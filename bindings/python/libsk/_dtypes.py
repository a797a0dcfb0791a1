"""Element types: the names libsk gives them, and what NumPy and DLPack call them."""

from __future__ import annotations

from typing import Any

import numpy as np

from libsk._checks import read_by, refusal, shown
from libsk._errors import invalid

F32, F64, BF16, F16, I32, I64 = range(1, 7)
"""``enum sk_dtype``."""

NAMES: dict[int, str] = {F32: "f32", F64: "f64", BF16: "bf16", F16: "f16", I32: "i32", I64: "i64"}

ITEMSIZES: dict[int, int] = {F32: 4, F64: 8, BF16: 2, F16: 2, I32: 4, I64: 8}
TORCH_NAMES: dict[int, str] = {
    F32: "float32",
    F64: "float64",
    BF16: "bfloat16",
    F16: "float16",
    I32: "int32",
    I64: "int64",
}

_FROM_NUMPY: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): F32,
    np.dtype(np.float64): F64,
    np.dtype(np.float16): F16,
    np.dtype(np.int32): I32,
    np.dtype(np.int64): I64,
}
_TO_NUMPY: dict[int, np.dtype[Any]] = {code: dtype for dtype, code in _FROM_NUMPY.items()}

# DLPack's (type code, bits): 0 is a signed integer, 2 IEEE, 4 bfloat.
_FROM_DLPACK: dict[tuple[int, int], int] = {
    (2, 32): F32,
    (2, 64): F64,
    (4, 16): BF16,
    (2, 16): F16,
    (0, 32): I32,
    (0, 64): I64,
}

TO_DLPACK: dict[int, tuple[int, int]] = {code: dtype for dtype, code in _FROM_DLPACK.items()}

_FROM_NAME: dict[str, int] = {
    **{name: code for code, name in NAMES.items()},
    **{name: code for code, name in TORCH_NAMES.items()},
}

ALLOWED = "f32, f64, bf16, f16, i32 or i64"


def is_bf16(dtype: np.dtype[Any]) -> bool:
    """Whether this is the type of the ml_dtypes package, without importing it."""
    return dtype.itemsize == 2 and dtype.name == "bfloat16"


def of_numpy(dtype: np.dtype[Any], what: str) -> int:
    """``enum sk_dtype`` of a NumPy type; ``what`` names the argument in the sentence."""
    code = _FROM_NUMPY.get(dtype)
    if code is not None:
        return code
    if is_bf16(dtype):
        return BF16
    if not dtype.isnative:
        raise invalid(f"{what} has foreign byte order ({dtype}); convert it with .astype()")
    if dtype == np.uint16:
        raise invalid(f'{what} has dtype uint16; if it holds bf16 bits, say dtype="bf16"')
    raise invalid(f"{what} has dtype {dtype}; allowed is {ALLOWED}")


def of_dlpack(dtype: tuple[int, int, int], what: str) -> int:
    """``enum sk_dtype`` of DLPack's (code, bits, lanes)."""
    code, bits, lanes = dtype
    found = _FROM_DLPACK.get((code, bits)) if lanes == 1 else None
    if found is None:
        raise invalid(
            f"{what} has DLPack type code {code} with {bits} bits and {lanes} lanes;"
            f" allowed is {ALLOWED}"
        )
    return found


def of_any(dtype: Any, what: str = "dtype") -> int:
    """``enum sk_dtype`` of a name, a NumPy type or anything NumPy takes for one."""
    if isinstance(dtype, str) and dtype in _FROM_NAME:
        return _FROM_NAME[dtype]
    # NumPy's default is f64, and libsk's is not.
    found, why = (None, []) if dtype is None else read_by(np.dtype, dtype)
    if found is not None:
        return of_numpy(found, what)
    text = "" if isinstance(dtype, str) else shown(dtype)
    name = text.rpartition(".")[2]  # torch.float32 and its like: their names end as ours do.
    if name in _FROM_NAME:
        return _FROM_NAME[name]
    raise refusal(f"{what} is {shown(dtype)}; allowed is {ALLOWED}", why)


def to_numpy(code: int) -> np.dtype[Any]:
    """NumPy's type. For bf16 that is ml_dtypes' where it is installed, else uint16 (the bits)."""
    if code != BF16:
        return _TO_NUMPY[code]
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    return np.dtype(ml_dtypes.bfloat16)
