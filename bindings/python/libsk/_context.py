"""Contexts: one embedding of the library, with its log."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from libsk import _core
from libsk._checks import kind_of, shown
from libsk._errors import invalid
from libsk._here import Here

LogFunction = Callable[[int, str, str], None]

_LEVELS = {"debug": -1, "info": 1, "warn": 2, "error": 3}


class Context(Here):
    """One embedding of libsk. Most programs never make one: a default serves them.

    It is for a log of one's own, for one part of a program; communicators, operations and tiles of
    different contexts know nothing of each other.

    ``log_level`` is ``"debug"``, ``"info"``, ``"warn"`` or ``"error"``, the least that is logged:
    info says who met whom, on what and which plans run, warnings say why a call failed. ``log``
    gets ``(level, component, message)``, level 0 for debug to 3 for errors, from any thread of
    libsk; what it raises is reported as unraisable and ends nothing. A level alone logs to stderr;
    with neither, stderr gets what the environment variable ``SK_LOG`` asks for, which is nothing
    where it is not set.
    """

    def __init__(self, *, log_level: str | None = None, log: LogFunction | None = None) -> None:
        level = _LEVELS.get(log_level) if isinstance(log_level, str) else None
        if level is None and log_level is not None:
            allowed = '"debug", "info", "warn" or "error"'
            raise invalid(f"log_level is {shown(log_level)}; allowed is {allowed}")
        if log is not None and not callable(log):
            raise invalid(f"log is {kind_of(log)}; give a function of three arguments")
        self._handle = _core.Context(level or 0, log)


_default: Context | None = None
_lock = threading.RLock()  # A handler of a signal may come back while its thread is in there.


def _begin_again() -> None:
    """In a forked child, which has one of its own where it needs one."""
    global _default, _lock
    _default = None
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_begin_again)


def default_context() -> Context:
    """The context of communicators that name none; made at the first use."""
    global _default
    if _default is not None:
        return _default
    with _lock:
        if _default is None:
            made = Context()
            if _default is None:  # Else a handler has made one meanwhile.
                _default = made
        return _default


def context_of(given: Context | None) -> Context:
    """The one that a caller gave, or the default one."""
    if given is None:
        return default_context()
    if not isinstance(given, Context):
        raise invalid(f"context is {shown(given)}; give a libsk.Context, or None")
    return given
