"""Operations that need no other ranks: what ``libsk._ops`` calls, whose functions are written from
the library's schemas."""

from __future__ import annotations

from typing import Any

from libsk._context import Context, default_context
from libsk._list_call import QuickLists, call_on_lists, has_lists
from libsk._schema_call import call, quick_way
from libsk._schemas import schemas


class LocalFunction:
    """One of them. Called with its inputs, attributes and outputs, each a tuple in the schema's
    order: of an output that need not be made whether it is, of others the caller's array or None.
    """

    def __init__(self, name: str) -> None:
        self._schema = schemas()[name]
        operands = self._schema["operands"]
        self._inputs = [each["name"] for each in operands if each["role"] == "in"]
        self._outputs = [
            each["name"]
            for each in operands
            if each["role"] == "out" and not each.get("only_in_place")
        ]
        self._values = [each["name"] for each in self._schema["attributes"]]
        on_lists = has_lists(self._schema)
        self._call = call_on_lists if on_lists else call
        self.quick = None if on_lists else quick_way(self._schema, leading=True)
        self.quick_lists = QuickLists(self._schema) if on_lists else None

    def __call__(self, context: Context | None, dtype: Any, *given: tuple[Any, ...]) -> Any:
        if (context is None or type(context) is Context) and dtype is None:
            known = default_context() if context is None else context
            if self.quick is not None:
                done = self.quick.run(known._handle, *given)
                if done is not None:
                    return done
            elif self.quick_lists is not None and self.quick_lists.run(known, *given[:2]):
                return None
        return self.long_way(context, dtype, *given)

    def long_way(self, context: Context | None, dtype: Any, *given: tuple[Any, ...]) -> Any:
        """:func:`libsk._schema_call.call`, which takes whatever can be made an array."""
        all_names = (self._inputs, self._values, self._outputs)
        arrays, values, outputs = (
            dict(zip(names, each, strict=True))
            for names, each in zip(all_names, given, strict=True)
        )
        return self._call(self._schema, context, arrays, values, outputs, dtype)
