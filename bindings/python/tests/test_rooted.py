"""What one rank gives to others or gets from them, and all-to-all, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from oracle import DTYPES, FLOATS, assert_close, random_array, reduced

Ranks = Callable[..., list[Any]]


def poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An output whose old bytes would be noticed."""
    array = np.empty(shape, DTYPES[dtype])
    array.view(np.uint8)[...] = 0xA5
    return array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [1, 2111])
def test_alltoall(
    ranks: Ranks, rng: np.random.Generator, world_size: int, dtype: str, rows: int
) -> None:
    shape = (world_size * rows, 3)
    inputs = [random_array(rng, shape, dtype) for _ in range(world_size)]

    def body(comm: sk.Comm) -> tuple[Any, Any]:
        out = poisoned(shape, dtype)
        assert comm.alltoall(inputs[comm.rank], out) is out
        shared = comm.empty(shape, out.dtype)
        shared[...] = 0
        comm.alltoall(inputs[comm.rank], shared)
        return out, shared.copy()

    for rank, got in enumerate(ranks(world_size, body)):
        wanted = np.concatenate([each[rank * rows : (rank + 1) * rows] for each in inputs])
        assert all(each.tobytes() == wanted.tobytes() for each in got)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
@pytest.mark.parametrize("size", [7, 40_001])
def test_reduce(ranks: Ranks, rng: np.random.Generator, op: str, dtype: str, size: int) -> None:
    if op == "avg" and dtype not in FLOATS:
        pytest.skip("avg is for floating types only")
    inputs = [random_array(rng, (size,), dtype) for _ in range(3)]
    for root in range(3):
        results = ranks(3, lambda comm, root=root: comm.reduce(inputs[comm.rank], op, root))
        assert [each is None for each in results] == [rank != root for rank in range(3)]
        assert_close(results[root], reduced(inputs, op), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [5, 30_011])
def test_gather_and_scatter(ranks: Ranks, rng: np.random.Generator, dtype: str, size: int) -> None:
    inputs = [random_array(rng, (size, 2), dtype) for _ in range(4)]
    whole = np.concatenate(inputs)
    for root in (0, 3):

        def body(comm: sk.Comm, root: int = root) -> tuple[Any, ...]:
            is_root = comm.rank == root
            gathered = comm.gather(inputs[comm.rank], root)
            out = poisoned((4, size, 2), dtype) if is_root else None
            assert comm.gather(inputs[comm.rank], root, out) is out
            part = poisoned((size, 2), dtype)
            assert comm.scatter(whole if is_root else None, root, part) is part
            shared = comm.empty((size, 2), whole.dtype)
            shared[...] = 0
            comm.scatter(whole if is_root else None, root, shared)
            # An x on others says shape and type.
            told = comm.scatter(whole if is_root else np.zeros_like(whole), root)
            return gathered, out, part, shared.copy(), told

        for rank, (gathered, out, *parts) in enumerate(ranks(4, body)):
            if rank == root:
                assert gathered.shape == (4, size, 2)
                assert gathered.tobytes() == out.tobytes() == whole.tobytes()
            else:
                assert gathered is None and out is None
            assert all(each.tobytes() == inputs[rank].tobytes() for each in parts)


def test_refused_alike_and_the_communicator_lives(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        with pytest.raises(sk.Error, match="first dimension must be a multiple of the 3 ranks"):
            comm.alltoall(np.zeros(4))
        for call in (comm.reduce, comm.gather, comm.scatter):
            with pytest.raises(sk.Error, match="root is 3, it must be 0 to 2"):
                call(np.zeros(3), root=3)
        if comm.rank == 1:
            with pytest.raises(sk.Error, match="x and out are both None"):
                comm.scatter(None, 0)
        same = np.zeros(6)
        with pytest.raises(sk.Error, match="overlap"):
            comm.alltoall(same, same)
        assert comm.allreduce(np.ones(2)).tolist() == [3.0, 3.0]

    ranks(3, body)


def test_ranks_that_differ_are_told(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        with pytest.raises(sk.DesyncError, match="root"):
            comm.reduce(np.ones(3), root=comm.rank)
        assert comm.allreduce(np.ones(2)).tolist() == [2.0, 2.0]

    ranks(2, body)


@pytest.mark.parametrize("kind", ["alltoall", "reduce", "gather", "scatter"])
def test_plans_and_calls_kept_ready(ranks: Ranks, kind: str) -> None:
    def body(comm: sk.Comm) -> None:
        x = np.arange(6.0) + 10 * comm.rank
        root = {} if kind == "alltoall" else {"root": 1}
        value = getattr(comm, kind)(x, **root)
        is_dealt = kind == "scatter"
        count = 3 if kind in ("alltoall", "scatter") else 6
        plan = comm.plan(kind, dtype="f64", count=count, **root)
        gives = not is_dealt or comm.rank == 1
        planned = plan.run(x) if gives else plan.run(None, np.empty(3))
        with comm.prepare(kind, x, **root) as ready:
            for _ in range(3):
                again = ready.run()
        if value is None:
            assert again is None
        else:
            assert np.array_equal(value, again) and np.array_equal(value.ravel(), planned.ravel())

    ranks(2, body)
