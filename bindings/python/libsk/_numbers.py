"""Numbers that calls are given, in whatever type they come: Python's, NumPy's, an array or a tensor
of one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libsk._checks import read_by, refusal, shown, whole
from libsk._errors import invalid


def number_of(value: Any, what: str) -> float:
    """A float, of whatever is one."""
    number, why = _as_float(value)
    if number is None:
        raise refusal(f"{what} is {shown(value)}; give a number", why)
    return number


def integer_of(value: Any, what: str, size: int = 8) -> int:
    """A whole number of so many bytes; a float may be one, as optimizers' counts of steps are."""
    number, why = _as_whole(value)
    if number is None:
        raise refusal(f"{what} is {shown(value)}; give an integer", why)
    if not -(2 ** (8 * size - 1)) <= number < 2 ** (8 * size - 1):
        raise invalid(f"{what} is {shown(number)}, which is beyond {8 * size} bits")
    return number


def _as_float(value: Any) -> tuple[float | None, list[Exception]]:
    return (None, []) if isinstance(value, str | bytes) else read_by(float, value)


def _as_whole(value: Any) -> tuple[int | None, list[Exception]]:
    kind, why = read_by(_name_of_dtype, value)
    if kind is None:
        return None, why
    if isinstance(value, bool) or kind.endswith("bool"):
        return None, []
    number, why = whole(value)
    if number is not None or not hasattr(type(value), "__float__"):
        return number, why
    real = _as_float(value)[0]
    return (int(real), []) if real is not None and real.is_integer() else (None, why)


def _name_of_dtype(value: Any) -> str:
    return str(getattr(value, "dtype", ""))


def readers(kinds: list[str]) -> list[tuple[type, Callable[[Any], Any]]]:
    """For :func:`in_own_types`, of attributes of these kinds."""
    of_kind: dict[str, tuple[type, Callable[[Any], Any]]] = {
        "float": (float, lambda value: _as_float(value)[0]),
        "int": (int, lambda value: _as_whole(value)[0]),
        "bool": (bool, lambda value: None),
    }
    return [of_kind[kind] for kind in kinds]


def in_own_types(
    values: tuple[Any, ...], known: list[tuple[type, Callable[[Any], Any]]]
) -> tuple[Any, ...]:
    """The same numbers as Python's own, which are all that the short way takes. What is none stays
    as it is: the long way says so."""
    if len(values) != len(known):
        return values
    pairs = zip(values, known, strict=True)
    return tuple([x if type(x) is own else _read(x, read) for x, (own, read) in pairs])


def _read(value: Any, read: Callable[[Any], Any]) -> Any:
    number = read(value)
    return value if number is None else number
