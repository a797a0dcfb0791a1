"""Tensors that torch puts in the place of others, in its transforms and its compiler's tools. They
have no memory of their own, and neither has what torch makes inside of those."""

from __future__ import annotations

import sys
from typing import Any

from libsk._errors import invalid


def check_has_memory(torch: Any, x: Any, what: str) -> None:
    """Refuses one of torch's that is such a stand-in."""
    if place := _place_of(torch, x):
        raise invalid(
            f"{what} is a tensor of {place}, which has no memory of its own: call the operation of"
            " torch.ops.sk there (import libsk.torch), of which torch knows"
        )


def check_result(torch: Any, made: Any) -> None:
    """The same of a new result, which nobody gave."""
    if place := _place_of(torch, made):
        raise invalid(
            f"inside of {place} torch makes tensors without memory, and so the result of this call:"
            " give an array of your own as out, or call the operation of torch.ops.sk there (import"
            " libsk.torch), of which torch knows"
        )


def _place_of(torch: Any, x: Any) -> str:
    """What it is of; empty of all others."""
    functorch = getattr(getattr(torch, "_C", None), "_functorch", None)
    is_wrapped = getattr(functorch, "is_functorch_wrapped_tensor", None)
    if is_wrapped is not None and is_wrapped(x):
        return "torch.func's transforms (grad, vmap, jvp, functionalize)"
    is_functional = getattr(torch, "_is_functional_tensor", None)
    if is_functional is not None and is_functional(x):
        return "functionalization"
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    return "FakeTensorMode" if isinstance(x, fake) else ""
