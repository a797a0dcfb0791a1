"""Every operation on torch's tensors: whole numbers, so that each result is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import pytest
import torch
from conftest import DEVICE, Ranks, poisoned

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64]
COUNTS = [1, 127, 4099, (1 << 20) + 3]
SHAPES = [
    (1, 1, 1), (33, 17, 65), (130, 136, 72), (256, 512, 128), (1000, 776, 520),
]  # fmt: skip
Draw = Callable[..., Any]
_REDUCE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(0),
    "prod": lambda x: x.prod(0),
    "min": lambda x: x.amin(0),
    "max": lambda x: x.amax(0),
    "avg": lambda x: x.mean(0),
}


def wide(x: Any) -> Any:
    """In a type that holds every sum here."""
    return x.to(torch.float64) if x.dtype.is_floating_point else x.to(torch.int64)


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", COUNTS)
def test_collectives(ranks: Ranks, draw: Draw, count: int, dtype: Any, world_size: int) -> None:
    parts = [draw(-20, 21, (world_size * count,), dtype) for _ in range(world_size)]
    total = wide(torch.stack(parts)).sum(0)

    def body(comm: sk.Comm) -> dict[str, Any]:
        x = parts[comm.rank].clone()
        got = {
            "allreduce": poisoned(x.shape, dtype),
            "allgather": poisoned((world_size, *x.shape), dtype),
            "reduce_scatter": poisoned((count,), dtype),
            "broadcast": poisoned(x.shape, dtype),
        }
        assert comm.allreduce(x, out=got["allreduce"]) is got["allreduce"]
        comm.allgather(x, got["allgather"])
        comm.reduce_scatter(x, "sum", got["reduce_scatter"])
        comm.broadcast(x, world_size - 1, got["broadcast"])
        comm.barrier()
        got["made"] = comm.allreduce(x)  # A tensor of torch's, on the same device.
        comm.allreduce(x, out=x)
        return {**got, "in place": x}

    for rank, got in enumerate(ranks(world_size, body)):
        for name in ("allreduce", "made", "in place"):
            assert got[name].device == parts[0].device and got[name].dtype == dtype
            assert torch.equal(wide(got[name]), total), name
        own = slice(rank * count, (rank + 1) * count)
        assert torch.equal(wide(got["reduce_scatter"]), total[own])
        assert torch.equal(got["allgather"], torch.stack(parts))
        assert torch.equal(got["broadcast"], parts[-1])


@pytest.mark.parametrize("op", list(_REDUCE))
@pytest.mark.parametrize("world_size", [1, 3, 8, 12, 16])
def test_reductions(ranks: Ranks, draw: Draw, op: str, world_size: int) -> None:
    parts = [draw(-3, 4, (67, 301), torch.float32) for _ in range(world_size)]
    exact = _REDUCE[op](torch.stack(parts).double())

    def body(comm: sk.Comm) -> Any:
        return comm.allreduce(parts[comm.rank], op, poisoned((67, 301), torch.float32))

    for got in ranks(world_size, body):
        torch.testing.assert_close(got.double(), exact, rtol=2.0**-23, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_products(
    ranks: Ranks, draw: Draw, world_size: int, shape: tuple[int, int, int], dtype: Any
) -> None:
    """Both fused ones, all layouts, new results and given ones, weights packed."""
    m, n, k = shape
    a = [draw(-1, 2, (m, k), dtype) for _ in range(world_size)]
    b = [draw(-1, 2, (k, n), dtype) for _ in range(world_size)]
    summed = sum(x.double() @ y.double() for x, y in zip(a, b, strict=True))
    rows = torch.cat(a).double()

    def body(comm: sk.Comm) -> dict[str, tuple[Any, Any]]:
        x, y = a[comm.rank], b[comm.rank]
        x_t, y_t = x.T.contiguous(), y.T.contiguous()
        apart = poisoned((m, k + 16), dtype)
        apart[:, :k] = x
        given = poisoned((m, n), dtype)
        assert comm.allreduce_gemm(x, y, given) is given
        gathered = rows @ y.double()
        packed = comm.pack(y)
        return {
            "given": (given, summed),
            "made": (comm.allreduce_gemm(x, y), summed),
            "in f32": (comm.allreduce_gemm(x, y, out_dtype="f32"), summed),
            "b turned": (comm.allreduce_gemm(x, y_t.T), summed),
            "a turned": (comm.allreduce_gemm(x_t.T, y), summed),
            "both": (comm.allreduce_gemm(x_t, y_t, transpose_a=True, transpose_b=True), summed),
            "rows apart": (comm.allreduce_gemm(apart[:, :k], y), summed),
            "packed": (comm.allreduce_gemm(x, packed), summed),
            "gathered": (comm.allgather_gemm(x, y), gathered),
            "gathered, b turned": (comm.allgather_gemm(x, y_t, transpose_b=True), gathered),
            "gathered, packed": (comm.allgather_gemm(x, packed), gathered),
        }

    for rank, got in enumerate(ranks(world_size, body)):
        for name, (c, exact) in got.items():
            rounded = exact.to(c.dtype)
            assert torch.equal(c, rounded), f"{name} of rank {rank}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_large_product_of_any_numbers(ranks: Ranks, seed: int, dtype: Any) -> None:
    size = 2048 if DEVICE != "cpu" else 128
    generator = torch.Generator().manual_seed(seed)
    pairs = [
        tuple(torch.randn(size, size, generator=generator).to(dtype).to(DEVICE) for _ in range(2))
        for _ in range(2)
    ]
    exact = sum(a.double() @ b.double() for a, b in pairs)
    magnitude = sum(a.double().abs() @ b.double().abs() for a, b in pairs)
    rounding = torch.finfo(dtype).eps

    def body(comm: sk.Comm) -> Any:
        return comm.allreduce_gemm(*pairs[comm.rank])

    first, second = ranks(2, body)
    assert torch.equal(first, second)
    allowed = 16 * 2.0**-24 * magnitude + 0.51 * rounding * exact.abs()
    assert torch.all((first.double() - exact).abs() <= allowed)


@pytest.mark.parametrize("count", [1, 4099, (1 << 20) + 3])
def test_pairs(ranks: Ranks, draw: Draw, count: int) -> None:
    """Round a ring of four, two pairs at a time."""
    parts = [draw(-99, 100, (count,), torch.int32) for _ in range(4)]

    def body(comm: sk.Comm) -> Any:
        after, before = (comm.rank + 1) % 4, (comm.rank - 1) % 4
        out = poisoned((count,), torch.int32)
        if comm.rank % 2 == 0:
            comm.send(parts[comm.rank], after)
            comm.recv(out, before)
        else:
            comm.recv(out, before)
            comm.send(parts[comm.rank], after)
        return out

    for rank, got in enumerate(ranks(4, body)):
        assert torch.equal(got, parts[rank - 1])


def test_every_root_and_odd_places(ranks: Ranks, draw: Draw) -> None:
    """Tensors that begin and end at no multiple of 16 bytes."""
    parts = [draw(-99, 100, (5003,), torch.int32) for _ in range(3)]

    def body(comm: sk.Comm) -> None:
        for root in range(3):
            for first in range(4):
                x = parts[comm.rank][first:-1]
                room = poisoned((5010,), torch.int32)
                out = room[first + 1 : first + 1 + x.numel()]
                comm.broadcast(x, root, out)
                assert torch.equal(out, parts[root][first:-1])
                comm.allreduce(x, "max", out)
                assert torch.equal(out, torch.stack([p[first:-1] for p in parts]).amax(0))
                assert int((room == -77).sum()) >= 5010 - x.numel()

    ranks(3, body)


def test_plans(ranks: Ranks, draw: Draw) -> None:
    x = [draw(-9, 10, (64, 96), torch.float32) for _ in range(2)]

    def body(comm: sk.Comm) -> None:
        plan = comm.plan("allreduce", dtype="f32", count=64 * 96, op="max")
        sk.check_plan(plan.dump())
        for _ in range(3):
            out = poisoned((64, 96), torch.float32)
            plan.run(x[comm.rank], out=out)
            assert torch.equal(out, torch.stack(x).amax(0))

    ranks(2, body)
