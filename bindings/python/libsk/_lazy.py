"""Modules loaded at first use.

Importing NumPy takes longer than a rank's whole start, and a cell that prints needs none of it.
"""

from __future__ import annotations

import _signal as signals  # What signal itself is made of, without its enums.
from importlib import import_module
from typing import Any


class Lazy:
    """Stands for a module; each attribute is looked up once and then lies here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_whole(self._name), attribute)
        setattr(self, attribute, value)
        return value


def import_whole(name: str) -> Any:
    """An interrupt comes behind the import: in its midst it would leave modules of C that cannot be
    loaded again, NumPy's for one, where the user has asked for none."""
    handler = signals.getsignal(signals.SIGINT)
    came: list[Any] = []
    try:
        if not callable(handler):  # Python does not deal with it.
            return import_module(name)
        signals.signal(signals.SIGINT, lambda *how: came.append(how))
    except ValueError:  # Another thread than the main one, in which handlers do not run.
        return import_module(name)
    try:
        return import_module(name)
    finally:
        signals.signal(signals.SIGINT, handler)
        if came:
            handler(*came[0])
