"""Torch's forward mode of differentiation, in which tensors carry tangents: no call here would
carry them on, or change those of a tensor that it overwrites. So such tensors are refused."""

from __future__ import annotations

import sys
from typing import Any

from libsk._errors import invalid


def may_have_tangents() -> bool:
    """Whether the mode is on, in any thread."""
    forward = sys.modules.get("torch.autograd.forward_ad")
    return getattr(forward, "_current_level", -1) >= 0


def check_no_tangent(x: Any, what: str) -> None:
    """Refuses a tensor that has one."""
    if may_have_tangents() and _has_tangent(x):
        raise invalid(
            f"{what} has a tangent, and no derivative goes through this call: give what detach()"
            " gives"
        )


def _has_tangent(x: Any) -> bool:
    torch = sys.modules["torch"]
    if not isinstance(x, torch.Tensor) or x.is_inference():
        return False
    # In torch's operations of ours autograd is behind the call, and tangents are not to be seen.
    keys, hidden = torch._C.DispatchKey, torch._C._dispatch_tls_local_exclude_set()
    for name in ("AutogradCPU", "AutogradOther", "ADInplaceOrView"):  # The first is all devices'.
        hidden = hidden.remove(getattr(keys, name))
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), hidden):
        return torch.autograd.forward_ad.unpack_dual(x).tangent is not None
