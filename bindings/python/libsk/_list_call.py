"""Calls of operations on lists of arrays, which they overwrite or read, by the library's own
description of them; ``_schema_call`` has all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from libsk import _core
from libsk._checks import is_given, shown
from libsk._context import Context, default_context
from libsk._errors import invalid
from libsk._operand import Operand
from libsk._outputs import Output
from libsk._place import OnCpu
from libsk._schema_call import integer_of, number_of, on_cpu
from libsk._schemas import Schema

_CPU = OnCpu()


def has_lists(schema: Schema) -> bool:
    """Whether the operation is of this kind."""
    return any(each.get("list") for each in schema["operands"])


class _Lists:
    """The lists of one call, array by array."""

    def __init__(self, schema: Schema, arrays: Mapping[str, Any], dtype: Any) -> None:
        operands = schema["operands"]
        within = {each["alias"] for each in operands if each.get("only_in_place")}
        self.found: dict[str, list[Operand]] = {}
        self.results: list[Output] = []
        self._first: str | None = None
        for each in operands:
            if each["role"] != "in":
                continue
            name = each["name"]
            follows = "|" not in each["types"] and "(" not in each["types"]
            given = self._sequence(name, arrays[name])
            self.found[name] = [
                self._read(f"{name}[{i}]", i, x, dtype if follows else None, name in within)
                for i, x in enumerate(given)
            ]
            self._first = self._first or name

    @property
    def length(self) -> int:
        """Arrays of each."""
        return len(self.found[self._first]) if self._first is not None else 0

    def _sequence(self, name: str, given: Any) -> Sequence[Any]:
        if not isinstance(given, list | tuple):
            raise invalid(f"{name} is {shown(given)}; give a list of arrays")
        if self._first is not None and len(given) != self.length:
            raise invalid(
                f"{name} has {len(given)} arrays; it must have {self.length}, as {self._first} has"
            )
        return given

    def _read(self, what: str, i: int, x: Any, dtype: Any, written: bool) -> Operand:
        on_cpu(x)
        operand = _CPU.operand(x, what, dtype)
        wanted = self.found[self._first][i].shape if self._first is not None else operand.shape
        if operand.shape != wanted:
            raise invalid(
                f"{what} has shape {operand.shape}; it must have {wanted}, as {self._first}[{i}]"
                " has"
            )
        source = operand.contiguous()
        if not written:
            return source
        # The array itself is the result; where it is a copy's, that is put back in the end.
        result = _CPU.output(x, x, source.code, operand.shape, source, what=what)
        self.results.append(result)
        return result.operand


def call_on_lists(
    schema: Schema,
    context: Context | None,
    arrays: Mapping[str, Any],
    values: Mapping[str, Any],
    outputs: Mapping[str, Any],
    dtype: Any = None,
) -> None:
    """``sk_call()`` of an operation of this process alone that overwrites what it is given."""
    if context is None:
        context = default_context()
    elif not isinstance(context, Context):
        raise invalid(f"context is {shown(context)}; give a libsk.Context, or None")
    lists = _Lists(schema, arrays, dtype)
    kinds = {each["name"]: each["kind"] for each in schema["attributes"]}
    listed, floats, integers = [], [], []
    for field in schema["fields"]:
        of, offset, kind = field["of"], field["offset"], field["kind"]
        if kind == "list":
            named = [(f"{of}[{i}]", _vector(each)) for i, each in enumerate(lists.found[of])]
            listed.append((offset, named))
        elif kind == "length":
            integers.append((offset, 8, lists.length))
        elif kinds[of] == "float":
            floats.append((offset, number_of(values[of], of)))
        elif kinds[of] == "bool":
            integers.append((offset, 4, int(is_given(values[of], of))))
        else:
            integers.append((offset, 8, integer_of(values[of], of)))
    _core.call_alone(context._handle, schema["id"], schema["bytes"], [], floats, integers, listed)
    for result in lists.results:
        result.finish()


def _vector(operand: Operand) -> tuple[Any, int, int, int, int]:
    return operand.span, operand.code, 1, operand.count, 0
