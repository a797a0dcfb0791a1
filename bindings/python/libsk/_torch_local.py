"""Operations that need no other ranks as operations of torch, made from the library's schemas.

An operation ``f`` whose gradient the library has, ``f_backward``, gets that: by names, of which
``dx`` is the gradient by ``x``, and others are f's inputs and results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from libsk._list_call import has_lists
from libsk._op_names import OPERATIONS
from libsk._schemas import schemas
from libsk._torch_lists import define_on_lists
from libsk._torch_operation import Operation
from libsk._torch_tangents import refuse_tangents


def _gradient(forward: Operation, backward: Operation, op: Any, gradient_op: Any) -> None:
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
    made: dict[str, Any] = {}
    operations: dict[str, Operation] = {}
    for name in OPERATIONS:
        schema = schemas()[name]
        if has_lists(schema):
            made[name] = define_on_lists(schema)
            continue
        each = operations[name] = Operation(schema)
        made[name] = torch.library.custom_op(
            f"sk::{name}", each.run, mutates_args=(), schema=each.signature()
        )
        made[name].register_fake(each.fake)
        refuse_tangents(name)
    for name, each in operations.items():
        if backward := operations.get(f"{name}_backward"):
            _gradient(each, backward, made[name], made[f"{name}_backward"])
    return made


FUNCTIONS = _make()
"""By name: ``torch.ops.sk``'s, as functions."""
