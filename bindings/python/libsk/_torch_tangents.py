"""Torch's operations of ours whose results are new tensors: they refuse tangents, which torch would
lose in silence."""

from __future__ import annotations

from typing import Any

import torch

from libsk._tangents import check_no_tangent

_LIBRARY = torch.library.Library("sk", "FRAGMENT")  # What is defined goes with it.


def refuse_tangents(name: str) -> None:
    """In this operation, from here on: right below autograd, where torch has code of its own."""
    op = getattr(torch.ops.sk, name).default
    names = [argument.name for argument in op._schema.arguments]

    def checked(keyset: Any, *arguments: Any) -> Any:
        for argument, x in zip(names, arguments, strict=False):
            check_no_tangent(x, argument)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return op.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *arguments)

    _LIBRARY.impl(name, checked, "ADInplaceOrView", with_keyset=True)
