"""Operations that torch's compiler knows: products fused with collectives, and collectives.

``sk::allreduce_gemm``, ``sk::allgather_gemm``, ``sk::allreduce``, ``sk::allgather`` and
``sk::reduce_scatter``.

Importing this module imports torch and registers them; ``import libsk`` does neither. An operation
of torch takes tensors and plain values, so a communicator goes by a name::

    import libsk.torch

    name = libsk.torch.register(comm)
    c = torch.ops.sk.allreduce_gemm(a, b, name)

They run on the tensors of the communicator's device, CPU or GPU, and on fake ones, so in a function
under ``torch.compile``; calls of ``libsk``'s own functions there are made between its graphs. As
everywhere, all ranks make the same calls in the same order: so let all
ranks compile the same function.

Gradients of ``allreduce_gemm`` and ``allreduce`` are those of one loss that every rank computes
alike from the result, as in layers whose rows are spread over ranks. Each rank's copy of the result
then has the same gradient, and that of its own operands needs no other rank: dA = dC B^T,
dB = A^T dC. Where ranks go on differently, each rank's copy has a part of the gradient only; such a
program adds the parts up itself, by an all-reduce of dC.

Those of ``allgather_gemm``, ``allgather`` and ``reduce_scatter`` are of the sum of all ranks'
losses, for what they give differs from rank to rank: dA = reduce_scatter(dC B^T),
dB = allgather(A)^T dC. So all ranks call ``backward()``, and need the same gradients.

Ranks on a GPU, which are threads of one process, call ``backward()`` under
``torch.autograd.set_multithreading_enabled(False)``: else torch runs the backward work of all of
them in one thread, where the first would wait for the others for ever; so that is refused.

A function that ranks share is compiled once for each name. Dynamo stops at 8: set
``torch._dynamo.config.recompile_limit`` (``cache_size_limit`` in older torch) to at least the
number of ranks, or compile a function for each.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

import torch
from torch._dynamo import trace_rules

from libsk._checks import kind_of
from libsk._comm import Comm
from libsk._errors import invalid

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"libsk.torch needs PyTorch 2.4 or later; this is {torch.__version__}")

from libsk._op_names import OPERATIONS
from libsk._torch_local import FUNCTIONS
from libsk._torch_operation import check_device
from libsk._torch_tangents import refuse_tangents

__all__ = [
    "allgather",
    "allgather_gemm",
    "allreduce",
    "allreduce_gemm",
    "reduce_scatter",
    "register",
    *OPERATIONS,
]
globals().update(FUNCTIONS)

# The compiler goes through Python code, and libsk's own reads memory by addresses, of which it has
# none: what is compiled breaks off before such a call, as before any that it does not know.
trace_rules.add("libsk")

_lock = threading.Lock()
_numbers = itertools.count()
_by_name: weakref.WeakValueDictionary[str, Comm] = weakref.WeakValueDictionary()
_names: weakref.WeakKeyDictionary[Comm, str] = weakref.WeakKeyDictionary()


def register(comm: Comm, name: str | None = None) -> str:
    """The name by which operations know this communicator, for as long as it lives.

    Without ``name`` one is made up. Ranks that are threads of one process need names of their own.
    Registering it again gives the name that it has; that of another one is refused.
    """
    if not isinstance(comm, Comm):
        raise invalid(f"comm is {kind_of(comm)}; give a libsk.Comm")
    if name is not None and not (isinstance(name, str) and name):
        raise invalid(f"name is {name!r}; give a text, or None for one that is made up")
    with _lock:
        known = _names.get(comm)
        if known is not None and name in (None, known):
            return known
        if known is not None:
            raise invalid(f"this communicator is registered already, as {known!r}")
        if name is None:
            name = next(f"sk{i}" for i in _numbers if f"sk{i}" not in _by_name)
        if name in _by_name:
            raise invalid(f"the name {name!r} is another communicator's; choose one for each rank")
        _by_name[name] = comm
        _names[comm] = name
        return name


def _find(name: str) -> Comm:
    comm = _by_name.get(name)
    if comm is None:
        raise invalid(
            f"no communicator is registered as {name!r}: libsk.torch.register(comm) gives the name,"
            " and the communicator must live as long as it is used"
        )
    return comm


# Graphs that torch captures by itself have a stream for each thread, but a launch has all ranks.
_TAGS = tuple(
    getattr(torch.Tag, name) for name in ("cudagraph_unsafe",) if hasattr(torch.Tag, name)
)


# ---- the product ----


@torch.library.custom_op(
    "sk::allreduce_gemm",
    mutates_args=(),
    tags=_TAGS,
    schema="(Tensor a, Tensor b, str comm, bool transpose_a=False, bool transpose_b=False,"
    " ScalarType? out_dtype=None) -> Tensor",
)
def allreduce_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    comm: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """:meth:`libsk.Comm.allreduce_gemm` on the communicator of that name: a new tensor.

    It has shape (m, n). ``a`` and ``b`` are matrices of one type; ``out_dtype`` may be
    torch.float32.
    """
    return _find(comm).allreduce_gemm(
        _with_rows(a),
        _with_rows(b),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        out_dtype=out_dtype,
    )


def _with_rows(x: torch.Tensor) -> torch.Tensor:
    """In a layout that needs no copy later: rows, or columns, that lie apart in order."""
    x = x.detach()
    if x.dim() != 2:
        return x  # Whose sentence is the call's.
    (rows, columns), (row_step, column_step) = x.shape, x.stride()
    by_rows = column_step == 1 and row_step >= max(1, columns)
    by_columns = row_step == 1 and column_step >= max(1, rows)
    return x if by_rows or by_columns else x.contiguous()


@allreduce_gemm.register_fake
def _(
    a: torch.Tensor,
    b: torch.Tensor,
    comm: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return _fake_product(1, a, b, transpose_a, transpose_b, out_dtype)


def _fake_product(
    blocks: int,
    a: torch.Tensor,
    b: torch.Tensor,
    transpose_a: bool,
    transpose_b: bool,
    out_dtype: torch.dtype | None,
) -> torch.Tensor:
    check_device({"a": a, "b": b})
    torch._check(a.dim() == 2, lambda: f"a has {a.dim()} dimensions; it must be a matrix")
    torch._check(b.dim() == 2, lambda: f"b has {b.dim()} dimensions; it must be a matrix")
    torch._check(a.dtype == b.dtype, lambda: f"a has {a.dtype} and b {b.dtype}; give one type")
    rows, inner = (a.shape[1], a.shape[0]) if transpose_a else (a.shape[0], a.shape[1])
    depth, columns = (b.shape[1], b.shape[0]) if transpose_b else (b.shape[0], b.shape[1])
    torch._check(inner == depth, lambda: f"a has {inner} columns and b {depth} rows")
    dtype = a.dtype if out_dtype is None else out_dtype
    return a.new_empty((blocks * rows, columns), dtype=dtype)


def _keep_operands(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, ctx.comm, ctx.transpose_a, ctx.transpose_b, _ = inputs
    ctx.save_for_backward(a, b)


def _product_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    grad = grad.to(a.dtype)
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        grad_a = grad @ (b if ctx.transpose_b else b.mT)
        grad_a = grad_a.mT if ctx.transpose_a else grad_a
    if ctx.needs_input_grad[1]:
        grad_b = (a if ctx.transpose_a else a.mT) @ grad
        grad_b = grad_b.mT if ctx.transpose_b else grad_b
    return grad_a, grad_b, None, None, None, None


allreduce_gemm.register_autograd(_product_backward, setup_context=_keep_operands)


# ---- the product of what is gathered ----


@torch.library.custom_op(
    "sk::allgather_gemm",
    mutates_args=(),
    tags=_TAGS,
    schema="(Tensor a, Tensor b, str comm, bool transpose_a=False, bool transpose_b=False,"
    " ScalarType? out_dtype=None) -> Tensor",
)
def allgather_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    comm: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """:meth:`libsk.Comm.allgather_gemm` on the communicator of that name: a new tensor.

    It has shape (world_size * m, n). ``a`` and ``b`` are matrices of one type; ``out_dtype`` may be
    torch.float32.
    """
    return _find(comm).allgather_gemm(
        _with_rows(a),
        _with_rows(b),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        out_dtype=out_dtype,
    )


@allgather_gemm.register_fake
def _(
    a: torch.Tensor,
    b: torch.Tensor,
    comm: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    blocks = _find(comm).world_size
    return _fake_product(blocks, a, b, transpose_a, transpose_b, out_dtype)


def _gathered_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    grad = grad.to(a.dtype)
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        grad_a = reduce_scatter(grad @ (b if ctx.transpose_b else b.mT), ctx.comm)
        grad_a = grad_a.mT if ctx.transpose_a else grad_a
    if ctx.needs_input_grad[1]:
        rows = allgather(a.mT if ctx.transpose_a else a, ctx.comm)
        grad_b = rows.flatten(0, 1).mT @ grad
        grad_b = grad_b.mT if ctx.transpose_b else grad_b
    return grad_a, grad_b, None, None, None, None


allgather_gemm.register_autograd(_gathered_backward, setup_context=_keep_operands)


# ---- its halves, each the other's gradient ----


@torch.library.custom_op(
    "sk::allgather", mutates_args=(), tags=_TAGS, schema="(Tensor x, str comm) -> Tensor"
)
def allgather(x: torch.Tensor, comm: str) -> torch.Tensor:
    """:meth:`libsk.Comm.allgather` on the communicator of that name: a new tensor.

    It has the shape of x behind a dimension of world_size.
    """
    return _find(comm).allgather(x.detach().contiguous())


@allgather.register_fake
def _(x: torch.Tensor, comm: str) -> torch.Tensor:
    return x.new_empty((_find(comm).world_size, *x.shape))


@torch.library.custom_op(
    "sk::reduce_scatter", mutates_args=(), tags=_TAGS, schema="(Tensor x, str comm) -> Tensor"
)
def reduce_scatter(x: torch.Tensor, comm: str) -> torch.Tensor:
    """:meth:`libsk.Comm.reduce_scatter`, a sum: x has world_size times the rows of the result."""
    return _find(comm).reduce_scatter(x.detach().contiguous())


@reduce_scatter.register_fake
def _(x: torch.Tensor, comm: str) -> torch.Tensor:
    ranks = _find(comm).world_size
    torch._check(x.dim() > 0, lambda: "x has no dimensions; its first is divided among the ranks")
    torch._check(x.shape[0] % ranks == 0, lambda: f"x has {x.shape[0]} rows for {ranks} ranks")
    return x.new_empty((x.shape[0] // ranks, *x.shape[1:]))


def _keep_name(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.comm = inputs


def _gather_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    return reduce_scatter(grad, ctx.comm)[0], None


def _scatter_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    rows = allgather(grad, ctx.comm)
    return rows.flatten(0, 1), None


allgather.register_autograd(_gather_backward, setup_context=_keep_name)
reduce_scatter.register_autograd(_scatter_backward, setup_context=_keep_name)


# ---- the sum ----


@torch.library.custom_op(
    "sk::allreduce",
    mutates_args=(),
    tags=_TAGS,
    schema='(Tensor x, str comm, str op="sum") -> Tensor',
)
def allreduce(x: torch.Tensor, comm: str, op: str = "sum") -> torch.Tensor:
    """:meth:`libsk.Comm.allreduce` on the communicator of that name: a new tensor shaped as x."""
    return _find(comm).allreduce(x.detach().contiguous(), op)


@allreduce.register_fake
def _(x: torch.Tensor, comm: str, op: str = "sum") -> torch.Tensor:
    return x.new_empty(x.shape)


def _keep_names(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.comm, ctx.op = inputs


def _sum_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    if ctx.op not in ("sum", "avg"):
        raise NotImplementedError(
            f'sk::allreduce has a gradient for "sum" and "avg", not {ctx.op!r}'
        )
    return (grad if ctx.op == "sum" else grad / _find(ctx.comm).world_size), None, None


allreduce.register_autograd(_sum_backward, setup_context=_keep_names)

for _name in ("allreduce_gemm", "allgather_gemm", "allgather", "reduce_scatter", "allreduce"):
    refuse_tangents(_name)
