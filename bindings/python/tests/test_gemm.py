"""The fused product against NumPy in double precision; plans and traces."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from oracle import DTYPES, random_array

Ranks = Callable[..., list[Any]]
_INPUT_ROUNDING = {"f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-8, "f16": 2.0**-11}


def check(
    got: np.ndarray, a: list[np.ndarray], b: list[np.ndarray], dtype: str, out_dtype: str
) -> None:
    """Products are summed in f32 (f64 for f64) and rounded once into the result's type."""
    wide = [(x.astype(np.float64), y.astype(np.float64)) for x, y in zip(a, b, strict=True)]
    exact = sum(x @ y for x, y in wide)
    magnitude = sum(np.abs(x) @ np.abs(y) for x, y in wide)
    inner = _INPUT_ROUNDING["f64" if dtype == "f64" else "f32"]
    allowed = inner * np.sqrt(a[0].shape[1] + 4) * 4 * magnitude
    allowed = allowed + 1.01 * _INPUT_ROUNDING[out_dtype] * np.abs(exact)
    error = np.abs(got.astype(np.float64) - exact)
    assert np.all(error <= allowed), float((error / allowed).max())


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 65), (128, 96, 64), (200, 333, 77)])
def test_allreduce_gemm(
    ranks: Ranks, rng: np.random.Generator, shape: tuple[int, int, int], dtype: str
) -> None:
    m, n, k = shape
    a = [random_array(rng, (m, k), dtype) for _ in range(2)]
    b = [random_array(rng, (k, n), dtype) for _ in range(2)]

    def body(comm: sk.Comm) -> list[np.ndarray]:
        mine, weights = a[comm.rank], b[comm.rank]
        packed = comm.pack(weights)
        assert packed.shape == (k, n) and packed.dtype == dtype
        return [comm.allreduce_gemm(mine, weights), comm.allreduce_gemm(mine, packed)]

    results = ranks(2, body)
    for plain, packed in results:
        for got in (plain, packed):
            assert got.dtype == DTYPES[dtype] and got.shape == (m, n)
            check(got, a, b, dtype, dtype)
    for each in range(2):
        assert results[0][each].tobytes() == results[1][each].tobytes()


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_result_in_f32(ranks: Ranks, rng: np.random.Generator, dtype: str) -> None:
    a = [random_array(rng, (50, 70), dtype) for _ in range(2)]
    b = [random_array(rng, (70, 30), dtype) for _ in range(2)]

    def body(comm: sk.Comm) -> np.ndarray:
        got = comm.allreduce_gemm(a[comm.rank], b[comm.rank], out_dtype="f32")
        out = np.full((50, 30), np.nan, np.float32)
        assert comm.allreduce_gemm(a[comm.rank], b[comm.rank], out) is out
        assert out.tobytes() == got.tobytes()
        return got

    for got in ranks(2, body):
        assert got.dtype == np.float32
        check(got, a, b, dtype, "f32")


def test_layouts(ranks: Ranks, rng: np.random.Generator) -> None:
    m, n, k = 61, 45, 83
    a = [random_array(rng, (m, k), "f32") for _ in range(2)]
    b = [random_array(rng, (k, n), "f32") for _ in range(2)]

    def body(comm: sk.Comm) -> list[np.ndarray]:
        x, y = a[comm.rank], b[comm.rank]
        wide_x = np.full((m, k + 9), np.nan, np.float32)
        wide_x[:, :k] = x
        x_t, y_t = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
        out = np.full((n, m), np.nan, np.float32)
        return [
            comm.allreduce_gemm(wide_x[:, :k], y),  # Rows that lie apart.
            comm.allreduce_gemm(x_t.T, y_t.T),  # Transposed views.
            comm.allreduce_gemm(x_t, y_t, transpose_a=True, transpose_b=True),
            comm.allreduce_gemm(x, comm.pack(y_t, transpose=True)),
            comm.allreduce_gemm(np.repeat(x, 2, axis=1)[:, ::2], y[::-1][::-1]),
            comm.allreduce_gemm(x, y, out=out.T).copy(),
        ]

    for results in ranks(2, body):
        for got in results:
            check(got, a, b, "f32", "f32")


def test_symmetric_operands(ranks: Ranks, rng: np.random.Generator) -> None:
    a = [random_array(rng, (96, 64), "f32") for _ in range(2)]
    b = [random_array(rng, (64, 80), "f32") for _ in range(2)]

    def body(comm: sk.Comm) -> np.ndarray:
        c = comm.empty((96, 80))
        packed = comm.pack(b[comm.rank])
        for _ in range(3):
            comm.allreduce_gemm(a[comm.rank], packed, out=c)
            result = c.copy()
            c[:] = np.nan
        return result

    for got in ranks(2, body):
        check(got, a, b, "f32", "f32")


def test_plans(ranks: Ranks, rng: np.random.Generator) -> None:
    x = [random_array(rng, (500,), "f32") for _ in range(2)]
    a = [random_array(rng, (40, 30), "f32") for _ in range(2)]
    b = [random_array(rng, (30, 20), "f32") for _ in range(2)]

    def body(comm: sk.Comm) -> None:
        plan = comm.plan("allreduce", dtype="f32", count=500, op="max")
        text = plan.dump()
        sk.check_plan(text)
        with pytest.raises(sk.InvalidArgumentError):
            sk.check_plan(text[: len(text) // 2])
        for _ in range(3):
            assert np.array_equal(plan.run(x[comm.rank]), np.maximum(*x))
        with pytest.raises(sk.InvalidArgumentError, match="499 elements"):
            plan.run(x[comm.rank][1:])
        gemm = comm.plan("allreduce_gemm", dtype="f32", m=40, n=20, k=30)
        check(gemm.run(a[comm.rank], weights=comm.pack(b[comm.rank])), a, b, "f32", "f32")
        gather = comm.plan("allgather", dtype="f32", count=500)
        assert np.array_equal(gather.run(x[comm.rank]), np.stack(x))
        scatter = comm.plan("reduce_scatter", dtype="f32", count=250, op="min")
        half = slice(250 * comm.rank, 250 * comm.rank + 250)
        assert np.array_equal(scatter.run(x[comm.rank]), np.minimum(*x)[half])
        comm.plan("barrier").run()

    ranks(2, body)


def test_a_trace_holds_the_tasks_of_all_ranks(ranks: Ranks, rng: np.random.Generator) -> None:
    a = [random_array(rng, (64, 64), "f32") for _ in range(2)]

    def body(comm: sk.Comm) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        with comm.trace() as trace:
            comm.allreduce_gemm(a[comm.rank], a[comm.rank])
        return trace.events, trace.gather()

    results = ranks(2, body)
    for own, both in results:
        assert own and all("name" in event for event in own)
        assert both == results[0][0] + results[1][0]
        assert {event["pid"] for event in both} == {0, 1}


def test_what_stands_for_work_done_once_can_be_kept_track_of() -> None:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="tracked") as comm:
        for made in (comm.pack(np.ones((2, 2), np.float32)), comm.plan("barrier")):
            kept = weakref.ref(made)
            assert kept() is made
