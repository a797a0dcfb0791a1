"""Plain arguments as the C ABI wants them: names to codes, seconds to milliseconds, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from libsk._errors import invalid

OPS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "avg": 5}
"""``enum sk_redop``."""


def op_code(op: str) -> int:
    """``enum sk_redop`` of a name."""
    code = OPS.get(op) if isinstance(op, str) else None
    if code is None:
        raise invalid(f'op is {op!r}; allowed is "sum", "prod", "min", "max" or "avg"')
    return code


def milliseconds(seconds: float | None, what: str = "timeout") -> int:
    """A limit in seconds as the C ABI wants it; None is its default."""
    if seconds is None:
        return 0
    if not isinstance(seconds, int | float) or not 0 < seconds < 2**40:
        raise invalid(f"{what} is {seconds!r}; give seconds above 0, or None for the default")
    return max(1, round(seconds * 1000))


def index_of(value: Any, what: str) -> int:
    """The number of a rank."""
    try:
        index = value.__index__()
    except AttributeError:
        raise invalid(f"{what} is {value!r}; give the number of a rank") from None
    if not -(2**31) <= index < 2**31:
        raise invalid(f"{what} is {index}; give the number of a rank")
    return index


def shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Sizes of one or more dimensions."""
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)  # type: ignore[arg-type]
    if not all(hasattr(size, "__index__") and int(size) >= 0 for size in sizes):
        raise invalid(f"shape is {shape!r}; give sizes that are 0 or more")
    return tuple(int(size) for size in sizes)
