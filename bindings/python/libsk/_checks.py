"""Plain arguments as the C ABI wants them: names to codes, seconds to milliseconds, sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from libsk._errors import invalid

OPS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "avg": 5}
"""``enum sk_redop``."""

_SHOWN_MAX = 80


def shown(value: Any) -> str:
    """A value in a sentence: its ``repr``, as far as it has one, and not at any length."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever the object's own raises.
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def op_code(op: str, what: str = "op") -> int:
    """``enum sk_redop`` of a name."""
    code = OPS.get(op) if isinstance(op, str) else None
    if code is None:
        raise invalid(f'{what} is {shown(op)}; allowed is "sum", "prod", "min", "max" or "avg"')
    return code


def milliseconds(seconds: float | None, what: str = "timeout") -> int:
    """A limit in seconds as the C ABI wants it; None is its default."""
    if seconds is None:
        return 0
    try:
        number = math.nan if isinstance(seconds, str | bytes) else float(seconds)
    except Exception:  # noqa: BLE001 - of an object of whatever type.
        number = math.nan
    if not 0 < number < 2**40:
        raise invalid(f"{what} is {shown(seconds)}; give seconds above 0, or None for the default")
    return max(1, round(number * 1000))


def whole(value: Any) -> int | None:
    """The number of an object that is a whole one."""
    try:
        return operator.index(value)
    except Exception:  # noqa: BLE001 - of an object of whatever type.
        return None


def integer(value: Any, what: str, allowed: str, low: int = 0, end: int = 2**31) -> int:
    """A whole number from ``low`` to below ``end``, which is what ``allowed`` says in words."""
    number = whole(value)
    if number is None or not low <= number < end:
        raise invalid(f"{what} is {shown(value)}; give {allowed}")
    return number


def index_of(value: Any, what: str) -> int:
    """The number of a rank."""
    return integer(value, what, "the number of a rank", low=-(2**31))


def is_given(flag: Any, what: str) -> bool:
    """True or False; NumPy's, 1 and 0 are welcome."""
    if flag is True or flag is False:
        return flag
    if type(flag).__module__ == "numpy" and type(flag).__name__ in ("bool", "bool_"):
        return bool(flag)
    return bool(integer(flag, what, "True or False", end=2))


def text_of(value: Any, what: str, allowed: str = "a text") -> str:
    """A string that C takes: of characters, and without the one that ends it there."""
    if isinstance(value, str):
        try:
            if "\0" not in value and value.encode() is not None:
                return value
        except UnicodeEncodeError:
            pass
        raise invalid(f"{what} is {shown(value)}; give {allowed}, without NUL or surrogates")
    raise invalid(f"{what} is {shown(value)}; give {allowed}")


def shape_of(shape: SupportsIndex | Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Sizes of one or more dimensions."""
    allowed = "a size, or sizes, that are 0 or more"
    single = whole(shape)
    try:
        numbers = [single] if single is not None else [whole(size) for size in shape]
    except Exception:  # noqa: BLE001 - of an object of whatever type.
        numbers = [None]
    sizes = tuple(number for number in numbers if number is not None)
    if len(sizes) < len(numbers) or isinstance(shape, str | bytes | dict | set):
        raise invalid(f"shape is {shown(shape)}; give {allowed}")
    if any(size < 0 for size in sizes) or math.prod(sizes) >= 2**63:
        raise invalid(f"shape is {shown(shape)}; give {allowed}, of less than 2**63 elements")
    return sizes
