"""Tensors of torch that require a gradient: none goes through a call here. So they are refused
where torch keeps gradients, and taken where it keeps none, as under ``torch.no_grad()``."""

from __future__ import annotations

from typing import Any

from libsk._errors import Error, invalid


def exporter(torch: Any, x: Any, what: str) -> Any:
    """What can be exported in place of one of torch's: none that requires a gradient can."""
    if not x.requires_grad:
        return x
    if torch.is_grad_enabled():
        raise needs_gradient(what)
    return x.detach()


def needs_gradient(what: str) -> Error:
    """Where gradients are kept, a tensor that requires one is refused."""
    return invalid(
        f"{what} requires a gradient, and none goes through this call: make it under"
        " torch.no_grad(), as optimizers step, or give what detach() gives"
    )
