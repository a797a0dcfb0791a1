"""Tensors of torch that a call keeps by their addresses, and whether they still lie there.

NumPy moves no array that somebody refers to, and memory that DLPack exports stays as it is until it
is given back. Torch promises neither: ``resize_()``, ``share_memory_()``, a queue of its
multiprocessing, ``x.data = y``, ``module.double()`` and what frees parameters for a while (FSDP)
give a tensor other memory, and what it had may be another one's at once.
"""

from __future__ import annotations

from typing import Any

from libsk import _core
from libsk._arrays import operand, torch_if_of
from libsk._errors import Error, invalid
from libsk._gradients import needs_gradient
from libsk._operand import Operand


class Stays:
    """One of them, as it was when its call was prepared."""

    __slots__ = ("_x", "_what", "_dtype", "_found", "_torch", "_seen", "_lies")

    def __init__(self, x: Any, what: str, found: Operand, dtype: Any = None) -> None:
        torch = torch_if_of(x)
        self._x, self._what, self._dtype, self._found = x, what, dtype, found
        self._torch = torch
        kinds = torch.Tensor, getattr(getattr(torch, "nn", None), "Parameter", None)
        self._seen = (x.shape, x.stride(), x.dtype) if type(x) in kinds else None
        """None of other classes: where theirs lie they say by ``__dlpack__`` alone."""
        # The same, of those that the extension module reads.
        self._lies = _core.Lies(x, found.span[0])

    def check(self) -> None:
        """Before a run: whether all is as it was."""
        x, found = self._x, self._found
        if x.requires_grad and self._torch.is_grad_enabled():  # Since then, by requires_grad_().
            raise needs_gradient(self._what)
        if self._lies.is_known and self._lies.as_before():
            return
        if self._seen is not None:
            is_same = (x.shape, x.stride(), x.dtype) == self._seen
            is_same = is_same and (x.data_ptr() == found.span[0] or not found.count)
        else:
            now = operand(x, self._what, self._dtype)
            is_same = (now.span, now.code, now.layout()) == (found.span, found.code, found.layout())
        if not is_same:
            raise self._has_moved()

    def _has_moved(self) -> Error:
        return invalid(
            f"{self._what} has other memory, or another shape or type, than when this call was"
            f" prepared (shape {self._found.shape} then, {tuple(self._x.shape)} now): resize_(),"
            " share_memory_(), .data = ..., .to() of a module and the like move a tensor, and a"
            " call kept ready works where its arrays lay; prepare it anew"
        )


def stays(x: Any, what: str, found: Operand, dtype: Any = None) -> list[Stays]:
    """None of what is not torch's."""
    return [] if torch_if_of(x) is None else [Stays(x, what, found, dtype)]
