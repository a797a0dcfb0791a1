"""Operations that need no other ranks: what ``libsk._ops`` calls, whose functions are written from
the library's schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from libsk import _core
from libsk._context import Context
from libsk._schema_call import Schema, call


@cache
def schemas() -> dict[str, Schema]:
    """All operations of the library, by name."""
    return {each["name"]: each for each in json.loads(_core.describe_operations())}


def run(
    name: str,
    context: Context | None,
    dtype: Any,
    arrays: Mapping[str, Any],
    values: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> Any:
    """:func:`libsk._schema_call.call` of one of them."""
    return call(schemas()[name], context, arrays, values, outputs, dtype)
