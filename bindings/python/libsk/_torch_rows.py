"""``sk::rmsnorm`` and its gradient as operations of torch: no communicator, all cores."""

from __future__ import annotations

from typing import Any

import torch

from libsk import _local

__all__ = ["rmsnorm", "rmsnorm_backward"]


def _sums(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _plain(x: torch.Tensor) -> torch.Tensor:
    return x.detach().contiguous()


@torch.library.custom_op(
    "sk::rmsnorm",
    mutates_args=(),
    schema="(Tensor x, Tensor? weight=None, float eps=1e-5) -> (Tensor, Tensor)",
)
def rmsnorm(
    x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`libsk.rmsnorm`: the rows, and what each was multiplied by."""
    by = None if weight is None else _plain(weight)
    y, rstd = _local.rmsnorm(_plain(x), by, eps, return_rstd=True)
    return y, rstd


@rmsnorm.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    torch._check(x.dim() >= 1, lambda: "x is a number; it must have one dimension at least")
    rows = x.shape[:-1] if x.dim() > 1 else (1,)
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty(
        rows, dtype=_sums(x)
    )


@torch.library.custom_op(
    "sk::rmsnorm_backward",
    mutates_args=(),
    schema="(Tensor dy, Tensor x, Tensor rstd, Tensor? weight=None) -> (Tensor, Tensor)",
)
def rmsnorm_backward(
    dy: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`libsk.rmsnorm_backward`."""
    by = None if weight is None else _plain(weight)
    dx, dweight = _local.rmsnorm_backward(_plain(dy), _plain(x), _plain(rstd), by)
    return dx, dweight


@rmsnorm_backward.register_fake
def _(
    dy: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = x.dtype if weight is None else weight.dtype
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    return dx, x.new_empty((x.shape[-1],), dtype=dtype)


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    x, weight, _ = inputs
    _, rstd = output
    ctx.save_for_backward(x, rstd, *(() if weight is None else (weight,)))
    ctx.mark_non_differentiable(rstd)


def _rows_backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
    x, rstd, *weight = ctx.saved_tensors
    dx, dweight = rmsnorm_backward(grad.to(x.dtype), x, rstd, *weight)
    return dx, dweight if weight else None, None


rmsnorm.register_autograd(_rows_backward, setup_context=_keep_rows)
