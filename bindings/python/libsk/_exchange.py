"""Torch as the extension module knows it, which reads tensors by DLPack's exchange API: where torch
has that, calls of the common kind take tensors as they take NumPy's arrays."""

from __future__ import annotations

import sys
from typing import Any

from libsk import _core, _dtypes
from libsk._writes import counter, has_written

_seen: Any = None


def know_torch() -> None:
    """Tells it, once torch is there as a whole."""
    global _seen
    torch = sys.modules.get("torch")
    if torch is _seen:
        return
    try:  # While another thread imports it some of this is not there yet.
        capsule = torch.Tensor.__dlpack_c_exchange_api__
        names = [getattr(torch, name) for _, name in sorted(_dtypes.TORCH_NAMES.items())]
        count, takes_lists = counter(torch)
        known = (
            torch.Tensor,
            torch.nn.Parameter,
            capsule,
            names,
            torch.is_grad_enabled,
            torch.is_inference_mode_enabled,
            torch.autograd.forward_ad,
            torch.empty,
            torch.device("cpu"),
            count,
            has_written,
        )
    except AttributeError:
        return
    if not takes_lists:
        return
    _core.know_torch(*known)
    _seen = torch
