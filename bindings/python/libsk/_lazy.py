"""Modules loaded at first use.

Importing NumPy takes longer than a rank's whole start, and a cell that prints needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazy:
    """Stands for a module; each attribute is looked up once and then lies here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value
