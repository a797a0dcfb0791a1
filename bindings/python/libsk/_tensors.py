"""Tensors of torch as lists have them, by hundreds: those that are plain are read by their
attributes, where an export through DLPack would take several times as long."""

from __future__ import annotations

import sys
from typing import Any

from libsk import _dtypes
from libsk._exchange import know_torch
from libsk._gradients import needs_gradient
from libsk._operand import Operand, laid_out
from libsk._tangents import check_no_tangent, may_have_tangents
from libsk._wrapped import check_has_memory


class Tensors:
    """How one call reads them."""

    def __init__(self) -> None:
        know_torch()  # For the calls to come.
        torch = sys.modules.get("torch")
        kinds = getattr(torch, "Tensor", None), getattr(getattr(torch, "nn", None), "Parameter", 0)
        self._kinds = kinds if all(isinstance(kind, type) for kind in kinds) else ()
        self._dense = getattr(torch, "strided", None)
        names = _dtypes.TORCH_NAMES.items()
        self._codes = {getattr(torch, name, name): code for code, name in names}
        is_on = getattr(torch, "is_grad_enabled", None)  # None while torch is being imported.
        self._has_gradients = is_on is not None and is_on()
        self._may_have_tangents = may_have_tangents()

    def operand(self, x: Any, what: str, dtype: Any) -> Operand | None:
        """A dense one on the CPU; None of all others, whose way is DLPack."""
        if type(x) not in self._kinds or not x.is_cpu or x.layout is not self._dense or x.is_neg():
            return None
        code = self._codes.get(x.dtype)
        if code is None or (dtype is not None and _dtypes.of_any(dtype) != code):
            return None
        if self._has_gradients and x.requires_grad:
            check_has_memory(sys.modules["torch"], x, what)
            raise needs_gradient(what)
        if self._may_have_tangents:
            check_no_tangent(x, what)
        try:
            address = x.data_ptr()
        except RuntimeError:  # Those of torch.func have no memory of their own.
            return None
        shape, size = tuple(x.shape), _dtypes.ITEMSIZES[code]
        if address and address % size == 0 and x.is_contiguous():
            return Operand((address, x.nbytes), shape, None, code, False, x)
        if not address and x.numel():
            return None
        return laid_out(address, shape, tuple(s * size for s in x.stride()), code, False, x)
