"""The library's own description of its operations."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from libsk import _core

Schema = dict[str, Any]
"""One operation: what ``sk_op_describe()`` writes of it."""


@cache
def schemas() -> dict[str, Schema]:
    """All operations of the library, by name."""
    return {each["name"]: each for each in json.loads(_core.describe_operations())}


def of_role(schema: Schema, role: str) -> list[Schema]:
    """Its operands that are ``"in"``, or ``"out"``."""
    return [each for each in schema["operands"] if each["role"] == role]
