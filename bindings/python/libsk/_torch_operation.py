"""One of the library's operations as torch has it: its arguments, its results, what they are."""

from __future__ import annotations

import ast
from typing import Any

import torch

from libsk import _dtypes, _ops
from libsk._schema_call import result_code
from libsk._schemas import Schema

_TYPES = {"float": float, "int": int, "bool": bool}
_DTYPES = {code: getattr(torch, name) for code, name in _dtypes.TORCH_NAMES.items()}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


class Operation:
    """One of them: arguments in the order of the Python function's, and all results."""

    def __init__(self, schema: Schema) -> None:
        self.name: str = schema["name"]
        operands, attributes = schema["operands"], schema["attributes"]
        inputs = [each for each in operands if each["role"] == "in"]
        needed = [each for each in inputs if not each.get("optional")]
        free = [each for each in inputs if each.get("optional")]
        plain = [each for each in attributes if not each.get("suggested")]
        usual = [each for each in attributes if each.get("suggested")]
        self.inputs = [*needed, *free]
        within = [each for each in operands if each.get("only_in_place")]
        self.outputs = [each for each in operands if each["role"] == "out" and each not in within]
        self.input_names = [each["name"] for each in self.inputs]
        self.output_names = [each["name"] for each in self.outputs]
        self.attribute_names = [each["name"] for each in attributes]
        self.arguments = [each["name"] for each in (*needed, *plain, *free, *usual)]
        self._defaults = {each["name"]: None for each in free}
        self._defaults |= {
            each["name"]: _TYPES[each["kind"]](ast.literal_eval(each["suggested"]))
            for each in usual
        }
        self._told = needed, plain, free, usual

    def signature(self) -> str:
        """As torch writes it."""
        needed, plain, free, usual = self._told
        told = [f"{self.type_of(each)} {each['name']}" for each in needed]
        told += [f"{self.number_type(each)} {each['name']}" for each in plain]
        told += [f"Tensor? {each['name']}=None" for each in free]
        told += [f"{self.number_type(each)} {each['name']}={each['suggested']}" for each in usual]
        return f"({', '.join(told)}) -> ({', '.join('Tensor' for _ in self.outputs)})"

    def type_of(self, operand: Schema) -> str:
        """In torch's words."""
        return "Tensor"

    def number_type(self, attribute: Schema) -> str:
        """In torch's words."""
        return _TYPES[attribute["kind"]].__name__

    def named(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """The arguments of one call."""
        return {**self._defaults, **dict(zip(self.arguments, arguments, strict=False))}

    def is_made(self, output: Schema, given: dict[str, Any]) -> bool:
        """Not the gradient by what is not there: that is a tensor of no elements."""
        name = output["name"]
        return not (output.get("optional") and name[0] == "d" and given.get(name[1:], 0) is None)

    def run(self, *arguments: Any) -> Any:
        given = self.named(arguments)
        for name in self.input_names:
            if given[name] is not None:
                given[name] = given[name].detach().contiguous()
        made = [each for each in self.outputs if self.is_made(each, given)]
        asked = {f"return_{each['name']}": True for each in made if each.get("optional")}
        done = getattr(_ops, self.name)(**given, **asked)
        results = list(done) if len(made) > 1 else [done]
        first = given[self.input_names[0]]
        out = [results.pop(0) if each in made else first.new_empty(0) for each in self.outputs]
        return tuple(out) if len(out) > 1 else out[0]

    def fake(self, *arguments: Any) -> Any:
        """Shapes and types of the results."""
        given = self.named(arguments)
        check_device({name: given[name] for name in self.input_names if given[name] is not None})
        sizes: dict[str, tuple[Any, ...]] = {}
        codes: dict[str, int] = {}
        for each in self.inputs:
            x = given[each["name"]]
            if x is None:
                continue
            name = each["name"]
            torch._check(x.dim() >= 1, lambda name=name: f"{name} is a number, and has no rows")
            check_type(x)
            codes[name] = _CODES[x.dtype]
            axes = each["shape"].split(", ")
            sizes.setdefault(axes[0], tuple(x.shape[:-1] if len(axes) == 2 else x.shape))
            if len(axes) == 2:
                sizes.setdefault(axes[1], tuple(x.shape[-1:]))
        first = given[self.input_names[0]]
        out = []
        for each in self.outputs:
            if not self.is_made(each, given):
                out.append(first.new_empty(0))
                continue
            shape = sum((sizes[axis] for axis in each["shape"].split(", ")), ()) or (1,)
            code = result_code(each, codes)
            out.append(first.new_empty(shape, dtype=_DTYPES[code]))
        return tuple(out) if len(out) > 1 else out[0]


def check_type(x: torch.Tensor) -> None:
    """Whether libsk has the type of its elements, for tensors of which that is all there is."""
    torch._check(x.dtype in _CODES, lambda: f"libsk has no type {x.dtype}")


def check_device(named: dict[str, torch.Tensor]) -> None:
    """Whether all are in one place. One on meta among others is no case for the call itself: torch
    takes it here, where nothing would be computed."""
    first = next(iter(named), None)
    for name, x in named.items():
        wanted = named[first].device
        torch._check(
            x.device == wanted,
            lambda name=name, x=x, wanted=wanted: (
                f"{name} is on {x.device}, and {first} on {wanted}; give all on one device"
            ),
        )
