"""Operations that need no other ranks as operations of torch, made from the library's schemas.

An operation ``f`` whose gradient the library has, ``f_backward``, gets that: by names, of which
``dx`` is the gradient by ``x``, and others are f's inputs and results.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import torch

from libsk import _dtypes, _ops
from libsk._list_call import has_lists
from libsk._op_names import OPERATIONS
from libsk._schema_call import result_code
from libsk._schemas import Schema, schemas

_TYPES = {"float": float, "int": int, "bool": bool}
_DTYPES = {code: getattr(torch, name) for code, name in _dtypes.TORCH_NAMES.items()}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


class _Operation:
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
        self.overwritten = tuple(each["alias"] for each in within)
        self.input_names = [each["name"] for each in self.inputs]
        self.output_names = [each["name"] for each in self.outputs]
        self.attribute_names = [each["name"] for each in attributes]
        self.arguments = [each["name"] for each in (*needed, *plain, *free, *usual)]
        self._defaults = {each["name"]: None for each in free}
        self._defaults |= {
            each["name"]: _TYPES[each["kind"]](ast.literal_eval(each["suggested"]))
            for each in usual
        }
        told = [f"{self._type(each)} {each['name']}" for each in needed]
        told += [f"{_TYPES[each['kind']].__name__} {each['name']}" for each in plain]
        told += [f"Tensor? {each['name']}=None" for each in free]
        told += [
            f"{_TYPES[each['kind']].__name__} {each['name']}={each['suggested']}" for each in usual
        ]
        results = ", ".join("Tensor" for _ in self.outputs)
        self.signature = f"({', '.join(told)}) -> ({results})"

    def _type(self, operand: Schema) -> str:
        """In torch's words, what is overwritten with a name of its own."""
        name = operand["name"]
        written = f"({name}!)" if name in self.overwritten else ""
        return f"Tensor{written}{'[]' if operand.get('list') else ''}"

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
        sizes: dict[str, tuple[Any, ...]] = {}
        codes: dict[str, int] = {}
        for each in self.inputs:
            x = given[each["name"]]
            if x is None:
                continue
            name = each["name"]
            torch._check(x.dim() >= 1, lambda name=name: f"{name} is a number, and has no rows")
            torch._check(x.dtype in _CODES, lambda x=x: f"libsk has no type {x.dtype}")
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


class _OnLists(_Operation):
    """One that overwrites lists of tensors, and has no result."""

    def run(self, *arguments: Any) -> None:
        given = self.named(arguments)
        for name in self.input_names:
            given[name] = [x.detach() for x in given[name]]
        getattr(_ops, self.name)(**given)

    def fake(self, *arguments: Any) -> None:
        """Nothing is made, and each list has as many tensors."""
        given = self.named(arguments)
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
                torch._check(x.dtype in _CODES, lambda x=x: f"libsk has no type {x.dtype}")


def _gradient(forward: _Operation, backward: _Operation, op: Any, gradient_op: Any) -> None:
    """Makes the second the gradient of the first."""

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        given = forward.named(inputs)
        results = output if isinstance(output, tuple) else (output,)
        known = {**given, **dict(zip(forward.output_names, results, strict=True))}
        wanted = [name for name in backward.input_names if name in known]
        ctx.names = [name for name in wanted if known[name] is not None]
        ctx.save_for_backward(*(known[name] for name in ctx.names))
        ctx.values = {name: given[name] for name in forward.attribute_names}
        ctx.given = [given.get(name) is not None for name in forward.arguments[: len(inputs)]]
        ctx.mark_non_differentiable(
            *(
                result
                for name, result in zip(forward.output_names, results, strict=True)
                if f"d{name}" not in backward.input_names
            )
        )

    def back(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        known = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        for name, gradient in zip(forward.output_names, gradients, strict=True):
            if f"d{name}" in backward.input_names:
                known[f"d{name}"] = gradient
        known |= {name: ctx.values[name] for name in backward.attribute_names}
        results = gradient_op(**known)
        found = results if isinstance(results, tuple) else (results,)
        made = dict(zip(backward.output_names, found, strict=True))
        places = zip(forward.arguments, ctx.given, strict=False)
        return tuple(made.get(f"d{name}") if is_given else None for name, is_given in places)

    op.register_autograd(back, setup_context=keep)


def _make() -> dict[str, Callable[..., Any]]:
    operations = {
        name: (_OnLists if has_lists(schemas()[name]) else _Operation)(schemas()[name])
        for name in OPERATIONS
    }
    made: dict[str, Any] = {}
    for name, each in operations.items():
        made[name] = torch.library.custom_op(
            f"sk::{name}", each.run, mutates_args=each.overwritten, schema=each.signature
        )
        made[name].register_fake(each.fake)
    for name, each in operations.items():
        if backward := operations.get(f"{name}_backward"):
            _gradient(each, backward, made[name], made[f"{name}_backward"])
    return made


FUNCTIONS = _make()
"""By name: ``torch.ops.sk``'s, as functions."""
