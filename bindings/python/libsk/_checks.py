"""Plain arguments as the C ABI wants them: names to codes, seconds to milliseconds, sizes."""

from __future__ import annotations

import math
import operator
import signal
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, SupportsIndex

from libsk._errors import invalid

OPS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "avg": 5}
"""``enum sk_redop``."""

_SHOWN_MAX = 80


def about_value(error: Exception) -> Exception:
    """The error of a look at somebody's object, which says something of that: to go into a sentence
    as its cause. Goes on as it is where it says nothing of it: out of memory, or raised by the
    handler of a signal, which Python runs between any two steps of such a look."""
    if isinstance(error, MemoryError) or is_of_handler(error.__traceback__):
        raise error
    return error


def is_of_handler(trace: TracebackType | None) -> bool:
    """Whether the handler of a signal raised what has this traceback."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: Any) -> Any:
    """Of a function, a method, a ``functools.partial`` of one, or an object with ``__call__``."""
    while hasattr(handler, "func"):
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__"):
        handler = type(handler).__call__
    return getattr(handler, "__code__", None)


def read_by(read: Callable[[Any], Any], value: Any) -> tuple[Any, list[Exception]]:
    """What it reads of a value, or None and why it cannot: for :func:`refusal`."""
    try:
        return read(value), []
    except Exception as error:  # noqa: BLE001 - of an object of whatever type.
        return None, [about_value(error)]


def refusal(sentence: str, why: list[Exception]) -> Exception:
    """An argument that is refused, and its cause, which it takes: a frame that kept that would be
    in its traceback as well, and all that the frames have would stay until garbage is collected."""
    error = invalid(sentence)
    error.__cause__ = why.pop() if why else None
    return error


def kind_of(value: Any) -> str:
    """What it is, in a sentence: "a str", "an int"."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def shown(value: Any) -> str:
    """A value in a sentence: its ``repr``, as far as it has one, and not at any length."""
    text = read_by(repr, value)[0]  # Why not is kept by no name: as in refusal().
    if text is None:
        return kind_of(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def op_code(op: str, what: str = "op") -> int:
    """``enum sk_redop`` of a name."""
    code = OPS.get(op) if isinstance(op, str) else None
    if code is None:
        raise invalid(f'{what} is {shown(op)}; allowed is "sum", "prod", "min", "max" or "avg"')
    return code


def milliseconds(seconds: float | None, what: str = "timeout", log2_end: int = 40) -> int:
    """A limit in seconds as the C ABI wants it; None is its default."""
    if seconds is None:
        return 0
    number, why = None, list[Exception]()
    if not isinstance(seconds, str | bytes):
        number, why = read_by(float, seconds)
    if number is None or not 0 < number < 2**log2_end:
        most = f" and below 2**{log2_end}" if number is not None and number > 0 else ""
        sentence = (
            f"{what} is {shown(seconds)}; give seconds above 0{most}, or None for the default"
        )
        raise refusal(sentence, why)
    return max(1, round(number * 1000))


def whole(value: Any) -> tuple[int | None, list[Exception]]:
    """The number of an object that is a whole one; of another None, and why."""
    return read_by(operator.index, value)


def integer(value: Any, what: str, allowed: str, low: int = 0, end: int = 2**31) -> int:
    """A whole number from ``low`` to below ``end``, which is what ``allowed`` says in words."""
    number, why = whole(value)
    if number is None or not low <= number < end:
        raise refusal(f"{what} is {shown(value)}; give {allowed}", why)
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
    single, why = whole(shape)
    given, why = ([shape], []) if single is not None else read_by(list, shape)
    read = [whole(size) for size in given or ()]
    sizes = tuple(number for number, _ in read if number is not None)
    if given is None or len(sizes) < len(read) or isinstance(shape, str | bytes | dict | set):
        for _, each in read:
            why, each[:] = [*why, *each], []
        raise refusal(f"shape is {shown(shape)}; give {allowed}", why)
    if any(size < 0 for size in sizes) or math.prod(sizes) >= 2**63:
        raise invalid(f"shape is {shown(shape)}; give {allowed}, of less than 2**63 elements")
    return sizes
