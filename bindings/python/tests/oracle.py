"""What every operation must give, in NumPy with double precision, and how exactly."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
}
FLOATS = ("f32", "f64", "bf16", "f16")
_ROUNDINGS = {"f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-8, "f16": 2.0**-11}


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, small: bool = False
) -> np.ndarray:
    """Values that a few ranks' sums and products keep in range."""
    if dtype in FLOATS:
        values = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
        return values.astype(DTYPES[dtype])
    high = 4 if small else 2**30
    return rng.integers(-high, high, shape).astype(DTYPES[dtype])


def reduced(parts: list[np.ndarray], op: str) -> np.ndarray:
    """Over ranks: in double precision for floats, wrapping for integers."""
    if parts[0].dtype.kind == "i":
        stack = np.stack(parts)
        with np.errstate(over="ignore"):
            return {
                "sum": lambda: stack.sum(axis=0, dtype=stack.dtype),
                "prod": lambda: stack.prod(axis=0, dtype=stack.dtype),
                "min": lambda: stack.min(axis=0),
                "max": lambda: stack.max(axis=0),
            }[op]()
    stack = np.stack([part.astype(np.float64) for part in parts])
    return {
        "sum": lambda: stack.sum(axis=0),
        "avg": lambda: stack.mean(axis=0),
        "prod": lambda: stack.prod(axis=0),
        "min": lambda: stack.min(axis=0),
        "max": lambda: stack.max(axis=0),
    }[op]()


def assert_close(got: Any, wanted: np.ndarray, dtype: str, scale: Any = 1.0) -> None:
    """Equal for integers; for floats within a few roundings of ``scale``."""
    if dtype not in FLOATS:
        np.testing.assert_array_equal(got, wanted)
        return
    # One rounding into the type, and those of the sums before it, in f32 at least.
    allowed = 1.01 * _ROUNDINGS[dtype] + 64 * (_ROUNDINGS["f64" if dtype == "f64" else "f32"])
    error = np.abs(np.asarray(got).astype(np.float64) - wanted)
    assert np.all(error <= allowed * np.maximum(np.abs(wanted), scale)), error.max()
