"""Contexts: one embedding of the library, with its log."""

from __future__ import annotations

import threading
from collections.abc import Callable

from libsk import _core
from libsk._checks import shown
from libsk._errors import invalid

LogFunction = Callable[[int, str, str], None]

_LEVELS = {"debug": 0, "info": 1, "warn": 2, "error": 3}


class Context:
    """One embedding of libsk. Most programs never make one: a default serves them.

    ``log_level`` is ``"info"``, ``"warn"`` or ``"error"``, the least that is logged. ``log`` gets
    ``(level, component, message)`` from any thread of libsk; None logs a line to stderr.
    """

    def __init__(self, *, log_level: str = "warn", log: LogFunction | None = None) -> None:
        level = _LEVELS.get(log_level) if isinstance(log_level, str) else None
        if not level:
            raise invalid(f'log_level is {shown(log_level)}; allowed is "info", "warn" or "error"')
        if log is not None and not callable(log):
            raise invalid(f"log is a {type(log).__name__}; give a function of three arguments")
        self._handle = _core.Context(level, log)


_default: Context | None = None
_lock = threading.Lock()


def default_context() -> Context:
    """The context of communicators that name none; made at the first use."""
    global _default
    with _lock:
        if _default is None:
            _default = Context()
        return _default
