"""Operations that overwrite lists of tensors, as torch's optimizers have theirs.

No gradient goes through them, so they refuse what requires one, as torch's own operations in place
do.

Torch has a version for each tensor, by which it sees that a gradient needs what was overwritten. A
call of libsk moves it for tensors with memory. Others, as ``torch.compile`` and ``torch.func`` put
in their place, never get there: theirs are moved on the way back.

A compiler makes a graph for each value of a number that it takes for a constant. So integers of a
run (``step``) are torch's ``SymInt``, and for its floats (``lr``) there is the overload ``tensor``,
which has them as tensors of one element. Each has a sibling that takes the integers as floats which
are whole, as optimizers count steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from libsk import _ops
from libsk._context import default_context
from libsk._errors import Error, invalid
from libsk._gradients import needs_gradient
from libsk._list_call import QuickLists
from libsk._outputs import note_writes
from libsk._schemas import Schema
from libsk._tangents import check_no_tangent, may_have_tangents
from libsk._torch_operation import Operation, check_device, check_type
from libsk._writes import has_written

_LIBRARY = torch.library.Library("sk", "FRAGMENT")  # What is defined goes with it.


class _OnLists(Operation):
    """One of them, without a result. ``by_tensor``: floats of a run come as tensors; ``by_float``:
    its integers as floats."""

    def __init__(self, schema: Schema, by_tensor: bool, by_float: bool) -> None:
        super().__init__(schema)
        within = [each for each in schema["operands"] if each.get("only_in_place")]
        self._overwritten = {each["alias"] for each in within}
        self._by_tensor = by_tensor
        self._quick = QuickLists(schema)
        of_run = [each for each in schema["attributes"] if each.get("runtime")]
        self._tensors = [each["name"] for each in of_run if self._is_tensor(each)]
        integers = [each["name"] for each in of_run if each["kind"] == "int"]
        self._whole = integers if by_float else []
        self.is_needed = bool(self._tensors or not by_tensor) and bool(integers or not by_float)

    def _is_tensor(self, attribute: Schema) -> bool:
        return self._by_tensor and bool(attribute.get("runtime")) and attribute["kind"] == "float"

    def type_of(self, operand: Schema) -> str:
        """What is overwritten has a name of its own."""
        name = operand["name"]
        return f"Tensor({name}!)[]" if name in self._overwritten else "Tensor[]"

    def number_type(self, attribute: Schema) -> str:
        if self._is_tensor(attribute):
            return "Tensor"
        if attribute["name"] in self._whole:
            return "float"
        is_free = attribute.get("runtime") and attribute["kind"] == "int"
        return "SymInt" if is_free else super().number_type(attribute)

    def run(self, *arguments: Any) -> None:
        given = self.named(arguments)
        self.check_numbers(given)
        getattr(_ops, self.name)(**given)

    def run_quick(self, keys: Any, arguments: tuple[Any, ...]) -> bool:
        """Whether this is a call of the common kind, and is done. ``keys`` are the dispatcher's, of
        all tensors and of what torch does with them.

        Where none is left behind autograd but the CPU's, the tensors have memory, and all that
        torch would do is to call :meth:`run`. Each step to there makes all lists anew.
        """
        behind = keys & torch._C._after_ADInplaceOrView_keyset
        if behind.highestPriorityTypeId() != torch._C.DispatchKey.CPU:
            return False
        given = self.named(arguments)
        for name in self._tensors:
            x = given[name]
            if not _is_number(x):
                return False
            given[name] = x.item()
        arrays = tuple(given[name] for name in self.input_names)
        values = tuple(given[name] for name in self.attribute_names)
        return self._quick.run(default_context(), arrays, values, negative=False)

    def check_numbers(self, given: dict[str, Any]) -> None:
        """Whether tensors that stand for numbers are real ones, for torch gives None for a tensor,
        and floats that stand for integers are whole."""
        for name in self._whole:
            if not given[name].is_integer():
                raise invalid(f"{name} is {given[name]}; give an integer")
        for name in self._tensors:
            x = given[name]
            if x is None:
                raise invalid(f"{name} is None; give a number, or a tensor of one element")
            if x.dtype == torch.bool or x.is_complex():
                raise invalid(f"{name} has dtype {x.dtype}; give a real number")

    def overwritten(self, *arguments: Any) -> list[torch.Tensor]:
        """Those of one call that have a version: tensors of inference have none."""
        given = self.named(arguments)
        names = [name for name in self.input_names if name in self._overwritten]
        return [x for name in names for x in given[name] if not x.is_inference()]

    def fake(self, *arguments: Any) -> None:
        """Nothing is made, and each list has as many tensors."""
        given = self.named(arguments)
        self.check_numbers(given)
        first = self.input_names[0]
        for name in self.input_names:
            has, wanted = len(given[name]), len(given[first])
            torch._check(
                has == wanted,
                lambda name=name, has=has, wanted=wanted: (
                    f"{name} has {has} tensors; {first} has {wanted}"
                ),
            )
            for x in given[name]:
                check_type(x)
        places = {f"{name}[{i}]": x for name in self.input_names for i, x in enumerate(given[name])}
        check_device(places)
        self._check_apart(places)
        for name in self._tensors:
            x = given[name]
            for place, y in itertools.islice(places.items(), 1):  # Any device else will do.
                torch._check(
                    x.is_meta == y.is_meta,
                    lambda name=name, x=x, place=place, y=y: (
                        f"{name} is on {x.device}, and {place} on {y.device}; either both are on"
                        " meta, or none"
                    ),
                )
            torch._check(
                x.numel() == 1,
                lambda name=name, x=x: f"{name} has shape {tuple(x.shape)}; give one element",
            )

    def _check_apart(self, places: dict[str, torch.Tensor]) -> None:
        """Fake ones have no memory: one tensor twice is what can be told of them."""
        known: dict[int, str] = {}
        for place, x in places.items():
            other = known.setdefault(id(x), place)
            is_written = {place.partition("[")[0], other.partition("[")[0]} & self._overwritten
            if other != place and is_written:
                torch._check(
                    x.numel() == 0,
                    lambda place=place, other=other: (
                        f"{other} and {place} overlap: they are one tensor; give each its own"
                    ),
                )

    def check_gradients(self, *arguments: Any) -> None:
        """Refuses what requires one, where torch keeps them, and what has a tangent."""
        given = self.named(arguments)
        self.check_numbers(given)
        if may_have_tangents():
            for name in self.input_names:
                for i, x in enumerate(given[name]):
                    check_no_tangent(x, f"{name}[{i}]")
            for name in self._tensors:
                check_no_tangent(given[name], name)
        if not torch.is_grad_enabled():
            return
        for name in self.input_names:
            for i, x in enumerate(given[name]):
                if x.requires_grad:
                    raise needs_gradient(f"{name}[{i}]")
        for name in self._tensors:
            if given[name].requires_grad:
                raise needs_gradient(name)


def _is_number(x: Any) -> bool:
    """Whether this is a tensor that is a real number, and no more."""
    is_plain = type(x) is torch.Tensor and x.is_floating_point() and x.numel() == 1
    return is_plain and not x.requires_grad and not may_have_tangents()


_OVERLOADS = (
    ("tensor", True, False),
    ("", False, False),
    ("tensor_float", True, True),
    ("float", False, True),
)
"""Name, and what comes as tensors and as floats, in the order in which torch tries them."""


def define_on_lists(schema: Schema) -> Callable[..., Any]:
    """Makes one of torch's of it, with its overloads."""
    name: str = schema["name"]
    for overload, by_tensor, by_float in _OVERLOADS:
        operation = _OnLists(schema, by_tensor, by_float)
        if operation.is_needed:
            _define(f"{name}.{overload}" if overload else name, operation)
    return getattr(torch.ops.sk, name)


def _define(name: str, operation: _OnLists) -> None:
    _LIBRARY.define(f"{name}{operation.signature()}", tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, operation.run, "CompositeExplicitAutograd")
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.sk, packet), overload or "default")

    def under_autograd(keyset: Any, *arguments: Any) -> None:
        if operation.run_quick(keyset, arguments):
            return
        operation.check_gradients(*arguments)
        with torch._C._AutoDispatchBelowAutograd():
            op.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    def noted(keyset: Any, *arguments: Any) -> None:
        if operation.run_quick(keyset, arguments):
            return
        tensors = operation.overwritten(*arguments)
        before = [x._version for x in tensors]

        def note() -> None:
            """Once: a version that has moved is that of a tensor that the call itself has noted."""
            both = zip(tensors, before, strict=True)
            note_writes([x for x, version in both if x._version == version])

        try:
            with torch._C._AutoDispatchBelowADInplaceOrView():
                op.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *arguments)
        except Error as error:
            if has_written(error):
                note()
            raise
        note()

    _LIBRARY.impl(name, under_autograd, "Autograd", with_keyset=True)
    _LIBRARY.impl(name, noted, "ADInplaceOrView", with_keyset=True)
    torch.library.register_fake(f"sk::{name}", operation.fake, lib=_LIBRARY)
