"""What IPython's tracebacks compute anew each time and is always the same, kept after the first.

The colours of a terminal, the words of Python's grammar as one expression, a style with the mark of
the failing node: 10 ms of a core for each traceback. After an interrupt every rank formats one, and
ranks share cores. The template keeps them for all ranks. What is kept depends on the arguments
alone; where a version of these packages has no such name, a traceback costs what it did.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from libsk._checks import about_value

_KEPT_MAX = 1024
"""Of one function; a style has some 40 colours, Python's lexer some 20 lists of words."""


@functools.cache
def install() -> None:
    """Once in a process, when its first traceback is to be formatted."""
    _keep("stack_data", "style_with_executing_node", _any)
    _keep("pygments.lexer", "regex_opt", _words)
    # A method, but of its arguments alone: all formatters have the one table of 256 colours.
    _keep("pygments.formatters.terminal256", "Terminal256Formatter._closest_color", _colour)


def _keep(module: str, name: str, key: Callable[..., Any]) -> None:
    """Replaces the function by one that looks under ``key(*arguments)`` first."""
    *outer, last = name.split(".")
    try:
        holder = importlib.import_module(module)
        for each in outer:
            holder = getattr(holder, each)
        function = getattr(holder, last)
    except (ImportError, AttributeError):
        return
    kept: dict[Any, Any] = {}

    @functools.wraps(function)
    def remembering(*arguments: Any, **options: Any) -> Any:
        try:
            found = key(*arguments, **options)
            if found in kept:
                return kept[found]
        except Exception as error:  # noqa: BLE001 - called as we do not know it, or in its own way.
            about_value(error)
            return function(*arguments, **options)
        result = function(*arguments, **options)
        if len(kept) < _KEPT_MAX:
            kept[found] = result
        return result

    setattr(holder, last, remembering)


def _any(style: Any, modifier: str) -> Any:
    return style, modifier


def _words(strings: Any, prefix: str = "", suffix: str = "") -> Any:
    if not isinstance(strings, tuple | list | set | frozenset):
        raise TypeError("to look at an iterator is to use it up")
    return tuple(strings), prefix, suffix


def _colour(formatter: Any, red: int, green: int, blue: int) -> Any:
    return red, green, blue
