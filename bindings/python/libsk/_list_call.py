"""Calls of operations on lists of arrays, which they overwrite or read, by the library's own
description of them; ``_schema_call`` has all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from libsk import _core, _outputs
from libsk._apart import check_apart
from libsk._arrays import exports, is_numpy
from libsk._checks import is_given, read_by, refusal, shown
from libsk._context import Context, context_of
from libsk._errors import invalid
from libsk._numbers import in_own_types, integer_of, number_of, readers
from libsk._operand import Operand
from libsk._outputs import Output, is_bits
from libsk._place import OnCpu
from libsk._schema_call import number_row, on_cpu
from libsk._schemas import Schema
from libsk._tensors import Tensors

_CPU = OnCpu()


def has_lists(schema: Schema) -> bool:
    """Whether the operation is of this kind."""
    return any(each.get("list") for each in schema["operands"])


class QuickLists:
    """The short way of one, for calls whose arguments are all of the common kind."""

    def __init__(self, schema: Schema) -> None:
        operands = schema["operands"]
        within = {each["alias"] for each in operands if each.get("only_in_place")}
        fields = {each["of"]: each for each in schema["fields"]}
        lists = [each["name"] for each in operands if each["role"] == "in"]
        self._readers = readers([each["kind"] for each in schema["attributes"]])
        (length,) = (each["offset"] for each in schema["fields"] if each["kind"] == "length")
        self._core = _core.ListOp(
            schema["id"],
            schema["bytes"],
            length,
            [(fields[name]["offset"], name, name in within) for name in lists],
            [number_row(each, fields) for each in schema["attributes"]],
        )

    def run(
        self,
        context: Context,
        arrays: tuple[Any, ...],
        values: tuple[Any, ...],
        *,
        negative: bool = True,
    ) -> bool:
        """Whether the call was made; if not, nothing has changed. ``negative``: whether a tensor of
        torch may have a negation that is yet to be applied."""
        plain = in_own_types(values, self._readers)
        return self._core.run(context._handle, arrays, plain, negative)


class _Array(NamedTuple):
    """One of a list."""

    what: str
    memory: Operand
    written: bool
    given: Any


class _Lists:
    """The lists of one call, array by array."""

    def __init__(self, schema: Schema, arrays: Mapping[str, Any], dtype: Any) -> None:
        operands = schema["operands"]
        within = {each["alias"] for each in operands if each.get("only_in_place")}
        self.found: dict[str, list[Operand]] = {}
        self.results: list[Output] = []
        self._read: dict[str, list[_Array]] = {}
        self._first: str | None = None
        self._tensors = Tensors()
        for each in operands:
            if each["role"] != "in":
                continue
            name = each["name"]
            follows = "|" not in each["types"] and "(" not in each["types"]
            given = self._sequence(name, arrays[name])
            self._read[name] = [
                self._array(
                    f"{name}[{i}]",
                    i,
                    x,
                    dtype if follows or dtype is None or is_bits(x) else None,
                    name in within,
                )
                for i, x in enumerate(given)
            ]
            self._first = self._first or name
        self._place()

    def _place(self) -> None:
        """Elements are joined by their places in arrays. So the order in which they lie does not
        matter, where it is the same in all of one place in the lists: that of the first."""
        if self._first is None:
            return
        orders = [each.memory.dense_order() for each in self._read[self._first]]
        is_copied = False
        for name, arrays in self._read.items():
            placed = self.found[name] = []
            for (_, memory, written, given), order in zip(arrays, orders, strict=True):
                here = memory if order is None else memory.in_order(order)
                source = here.contiguous()
                is_copied = is_copied or source is not here
                placed.append(source)
                if written:  # The array itself is the result: a copy is put back in the end.
                    target = None if source is here else here
                    self.results.append(Output(source, target, given))
        if is_copied:
            check_apart([each[:3] for arrays in self._read.values() for each in arrays])

    @property
    def length(self) -> int:
        """Arrays of each."""
        return len(self._read[self._first]) if self._first is not None else 0

    def vectors(self, name: str) -> list[tuple[str, tuple[Any, int, int, int, int]]]:
        """Of a list: what each is called, and where it is."""
        pairs = zip(self._read[name], self.found[name], strict=True)
        return [(each.what, (at.span, at.code, 1, at.count, 0)) for each, at in pairs]

    def _sequence(self, name: str, given: Any) -> Sequence[Any]:
        why = list[Exception]()
        read: Sequence[Any] | None
        if isinstance(given, list | tuple):
            read = tuple(given)  # Of its own: another thread may change a list meanwhile.
        else:
            is_other = is_numpy(given) or exports(given)
            is_other = is_other or isinstance(given, str | bytes | Mapping | set | frozenset)
            read, why = (None, []) if is_other else read_by(list, given)
        if read is None:
            raise refusal(f"{name} is {shown(given)}; give a list of arrays", why)
        if self._first is not None and len(read) != self.length:
            raise invalid(
                f"{name} has {len(read)} arrays; it must have {self.length}, as {self._first} has"
            )
        return read

    def _array(self, what: str, i: int, x: Any, dtype: Any, written: bool) -> _Array:
        operand = self._tensors.operand(x, what, dtype)
        if operand is None:
            on_cpu(x)
            if written:
                _outputs.check_kind(x, what)
            operand = _CPU.operand(x, what, dtype)
        wanted = operand.shape
        if self._first is not None:
            wanted = self._read[self._first][i].memory.shape
        if operand.shape != wanted:
            raise invalid(
                f"{what} has shape {operand.shape}; it must have {wanted}, as {self._first}[{i}]"
                " has"
            )
        if written:
            _outputs.check_mode(x, what)
            _outputs.check_output(operand, operand.code, operand.shape, what)
        return _Array(what, operand, written, x)


def call_on_lists(
    schema: Schema,
    context: Context | None,
    arrays: Mapping[str, Any],
    values: Mapping[str, Any],
    outputs: Mapping[str, Any],
    dtype: Any = None,
) -> None:
    """``sk_call()`` of an operation of this process alone that overwrites what it is given."""
    context = context_of(context)
    lists = _Lists(schema, arrays, dtype)
    kinds = {each["name"]: each["kind"] for each in schema["attributes"]}
    listed, floats, integers = [], [], []
    for field in schema["fields"]:
        of, offset, kind = field["of"], field["offset"], field["kind"]
        if kind == "list":
            listed.append((offset, lists.vectors(of)))
        elif kind == "length":
            integers.append((offset, 8, lists.length))
        elif kinds[of] == "float":
            floats.append((offset, number_of(values[of], of)))
        elif kinds[of] == "bool":
            integers.append((offset, 4, int(is_given(values[of], of))))
        else:
            integers.append((offset, 8, integer_of(values[of], of)))
    arguments = (schema["bytes"], [], floats, integers, listed)
    with _outputs.writing(*lists.results):
        _core.call_alone(context._handle, schema["id"], *arguments)
    for result in lists.results:
        result.finish()
