"""All ranks' A below each other times the own B, against NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from oracle import DTYPES, random_array
from test_gemm import check

Ranks = Callable[..., list[Any]]


def check_gathered(
    got: np.ndarray, a: list[np.ndarray], b: np.ndarray, dtype: str, out_dtype: str
) -> None:
    check(got, [np.concatenate(a)], [b], dtype, out_dtype)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 65), (128, 96, 64)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_allgather_gemm(
    ranks: Ranks, rng: np.random.Generator, size: int, shape: tuple[int, int, int], dtype: str
) -> None:
    m, n, k = shape
    a = [random_array(rng, (m, k), dtype) for _ in range(size)]
    b = [random_array(rng, (k, n), dtype) for _ in range(size)]

    def body(comm: sk.Comm) -> list[np.ndarray]:
        mine, weights = a[comm.rank], b[comm.rank]
        shared = comm.empty((m, k), DTYPES[dtype])
        shared[:] = mine
        return [
            comm.allgather_gemm(mine, weights),
            comm.allgather_gemm(mine, comm.pack(weights)),
            comm.allgather_gemm(shared, weights),
        ]

    for rank, results in enumerate(ranks(size, body)):
        for got in results:
            assert got.dtype == DTYPES[dtype] and got.shape == (size * m, n)
            check_gathered(got, a, b[rank], dtype, dtype)


def test_layouts_types_and_outputs(ranks: Ranks, rng: np.random.Generator) -> None:
    m, n, k = 21, 45, 33
    a = [random_array(rng, (m, k), "bf16") for _ in range(2)]
    b = [random_array(rng, (k, n), "bf16") for _ in range(2)]

    def body(comm: sk.Comm) -> list[np.ndarray]:
        x, y = a[comm.rank], b[comm.rank]
        wide = np.zeros((m, k + 9), x.dtype)
        wide[:, :k] = x
        x_t, y_t = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
        out = np.full((2 * m, n), np.nan, np.float32)
        room = np.full((2 * m, n + 5), np.nan, np.float32)
        assert comm.allgather_gemm(x, y, out) is out
        comm.allgather_gemm(x, y, room[:, :n])
        assert np.all(np.isnan(room[:, n:]))
        options: dict[str, Any] = {"out_dtype": "f32"}
        return [
            out,
            room[:, :n],
            comm.allgather_gemm(wide[:, :k], y, **options),
            comm.allgather_gemm(x_t.T, y_t.T, **options),
            comm.allgather_gemm(x_t, y_t, transpose_a=True, transpose_b=True, **options),
            comm.allgather_gemm(x, comm.pack(y_t, transpose=True), **options),
        ]

    for rank, results in enumerate(ranks(2, body)):
        for got in results:
            check_gathered(got, a, b[rank], "bf16", "f32")


def test_plans(ranks: Ranks, rng: np.random.Generator) -> None:
    a = [random_array(rng, (40, 30), "f32") for _ in range(2)]
    b = [random_array(rng, (30, 20), "f32") for _ in range(2)]

    def body(comm: sk.Comm) -> np.ndarray:
        plan = comm.plan("allgather_gemm", dtype="f32", m=40, n=20, k=30)
        sk.check_plan(plan.dump())
        with pytest.raises(sk.InvalidArgumentError, match="belong to a plan of allreduce_gemm or"):
            plan.run(a[comm.rank])
        with pytest.raises(sk.InvalidArgumentError, match="elements; the plan is for 1200"):
            plan.run(a[comm.rank][1:], weights=comm.pack(b[comm.rank]))
        return plan.run(a[comm.rank], weights=comm.pack(b[comm.rank]))

    for rank, got in enumerate(ranks(2, body)):
        check_gathered(got, a, b[rank], "f32", "f32")


def test_what_is_wrong_is_said(ranks: Ranks) -> None:
    x = np.ones((2, 3), np.float32)

    def body(comm: sk.Comm) -> None:
        for wrong, sentence in (
            ((x, x), "a is 2 x 3 and b is 2 x 3"),
            ((x, x.T.astype(float)), "give one type"),
            ((x, x.T, np.ones((2, 2), np.float32)), r"must have \(4, 2\)"),
        ):
            with pytest.raises(sk.InvalidArgumentError, match=sentence):
                comm.allgather_gemm(*wrong)
        with pytest.raises(sk.DesyncError, match="m is"):
            comm.allgather_gemm(np.ones((2 + comm.rank, 3), np.float32), x.T)

    ranks(2, body)
