"""Every collective against NumPy, on ranks that are threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from oracle import DTYPES, FLOATS, assert_close, random_array, reduced

Ranks = Callable[..., list[Any]]
SHAPES: list[tuple[int, ...]] = [(1,), (7,), (3, 5), (2, 3, 129), (40_001,)]


def poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An output whose old bytes would be noticed."""
    array = np.empty(shape, DTYPES[dtype])
    array.view(np.uint8)[...] = 0xA5
    return array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_allreduce(
    ranks: Ranks, rng: np.random.Generator, world_size: int, op: str, dtype: str
) -> None:
    if op == "avg" and dtype not in FLOATS:
        pytest.skip("avg is for floating types only")
    inputs = [[random_array(rng, s, dtype) for s in SHAPES] for _ in range(world_size)]
    outputs = ranks(world_size, lambda comm: [comm.allreduce(x, op) for x in inputs[comm.rank]])
    for i, shape in enumerate(SHAPES):
        wanted = reduced([each[i] for each in inputs], op)
        for got in (each[i] for each in outputs):
            assert got.shape == shape and got.dtype == DTYPES[dtype]
            assert_close(got, wanted, dtype)
            assert got.tobytes() == outputs[0][i].tobytes()  # The same bits on every rank.


@pytest.mark.parametrize("dtype", DTYPES)
def test_allgather(ranks: Ranks, rng: np.random.Generator, dtype: str) -> None:
    inputs = [random_array(rng, (5, 33), dtype) for _ in range(3)]
    for got in ranks(3, lambda comm: comm.allgather(inputs[comm.rank])):
        assert got.shape == (3, 5, 33)
        assert got.tobytes() == np.stack(inputs).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_reduce_scatter(ranks: Ranks, rng: np.random.Generator, dtype: str) -> None:
    inputs = [random_array(rng, (9, 37), dtype) for _ in range(3)]
    wanted = reduced(inputs, "sum")
    for rank, got in enumerate(ranks(3, lambda comm: comm.reduce_scatter(inputs[comm.rank]))):
        assert got.shape == (3, 37)
        assert_close(got, wanted[3 * rank : 3 * rank + 3], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("root", [0, 2])
def test_broadcast(ranks: Ranks, rng: np.random.Generator, dtype: str, root: int) -> None:
    inputs = [random_array(rng, (1003,), dtype) for _ in range(3)]
    for got in ranks(3, lambda comm: comm.broadcast(inputs[comm.rank], root)):
        assert got.tobytes() == inputs[root].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_ring_of_messages(ranks: Ranks, rng: np.random.Generator, dtype: str) -> None:
    inputs = [random_array(rng, (4, 257), dtype) for _ in range(2)]

    def body(comm: sk.Comm) -> np.ndarray:
        other = 1 - comm.rank
        if comm.rank == 0:
            comm.send(inputs[0], other)
            return comm.recv(peer=other, shape=(4, 257), dtype=dtype)
        got = comm.recv(poisoned((4, 257), dtype), other)
        comm.send(inputs[1], other)
        return got

    first, second = ranks(2, body)
    assert first.tobytes() == inputs[1].tobytes()
    assert second.tobytes() == inputs[0].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place(ranks: Ranks, rng: np.random.Generator, dtype: str) -> None:
    inputs = [random_array(rng, (3001,), dtype) for _ in range(2)]

    def body(comm: sk.Comm) -> np.ndarray:
        x = inputs[comm.rank].copy()
        assert comm.allreduce(x, out=x) is x
        return x

    for got in ranks(2, body):
        assert_close(got, reduced(inputs, "sum"), dtype)


def test_what_is_not_contiguous(ranks: Ranks, rng: np.random.Generator) -> None:
    inputs = [random_array(rng, (30, 20), "f32") for _ in range(2)]
    wanted = reduced(inputs, "sum")

    def body(comm: sk.Comm) -> None:
        x = inputs[comm.rank]
        np.testing.assert_allclose(comm.allreduce(x.T), wanted.T, rtol=1e-6)
        np.testing.assert_allclose(comm.allreduce(x[::3, 1::2]), wanted[::3, 1::2], rtol=1e-6)
        np.testing.assert_allclose(comm.allreduce(x[::-1]), wanted[::-1], rtol=1e-6)
        out = poisoned((20, 60), "f32")
        kept = out.copy()
        assert comm.allreduce(x.T, out=out[:, ::2]).base is out
        np.testing.assert_allclose(out[:, ::2], wanted.T, rtol=1e-6)
        assert out[:, 1::2].tobytes() == kept[:, 1::2].tobytes()
        x = x.copy()
        comm.allreduce(x[:, ::2], out=x[:, ::2])
        np.testing.assert_allclose(x[:, ::2], wanted[:, ::2], rtol=1e-6)
        assert np.array_equal(x[:, 1::2], inputs[comm.rank][:, 1::2])

    ranks(2, body)


def test_numbers(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        assert comm.allreduce(comm.rank + 1) == 6
        assert comm.allreduce(0.5, "avg") == 0.5
        assert comm.allreduce(np.float32(comm.rank), "max") == 2
        assert comm.broadcast(comm.rank, 1) == 1
        assert np.array_equal(comm.allgather(comm.rank), [0, 1, 2])
        assert np.array_equal(comm.allreduce([comm.rank, 1]), [3, 3])

    ranks(3, body)


def test_bf16_as_bits(ranks: Ranks, rng: np.random.Generator) -> None:
    inputs = [random_array(rng, (77,), "bf16") for _ in range(2)]

    def body(comm: sk.Comm) -> tuple[np.ndarray, np.ndarray]:
        bits = comm.allreduce(inputs[comm.rank].view(np.uint16), dtype="bf16")
        return bits, comm.allreduce(inputs[comm.rank])

    for bits, typed in ranks(2, body):
        assert bits.dtype == np.uint16
        assert bits.tobytes() == typed.tobytes()


@pytest.mark.parametrize("put_only", [False, True])
def test_symmetric_memory(ranks: Ranks, rng: np.random.Generator, put_only: bool) -> None:
    inputs = [random_array(rng, (70, 301), "f32") for _ in range(2)]
    wanted = reduced(inputs, "sum")

    def body(comm: sk.Comm) -> None:
        x, out = comm.empty((70, 301)), comm.empty((70, 301), "f32")
        assert not x.any() and x.dtype == np.float32
        assert x.ctypes.data % 64 == 0
        assert comm.info()["symmetric_bytes"] >= 2 * x.nbytes
        for _ in range(3):  # No barrier between, and the input is overwritten right away.
            x[:] = inputs[comm.rank]
            comm.allreduce(x, out=out)
            x[:] = np.nan
            np.testing.assert_allclose(out, wanted, rtol=1e-6)
        x[:] = inputs[comm.rank]
        comm.allreduce(x, out=x)
        np.testing.assert_allclose(x, wanted, rtol=1e-6)
        comm.free(x)
        assert x.size == 0

    ranks(2, body, put_only=put_only)


def test_what_a_rank_knows(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> tuple[int, int, int]:
        before = comm.info()["calls"]
        comm.barrier()
        assert comm.info()["calls"] == before + 1
        assert repr(comm) == f"<libsk.Comm: rank {comm.rank} of 3>"
        return comm.rank, comm.world_size, comm.local_rank

    assert ranks(3, body) == [(0, 3, 0), (1, 3, 1), (2, 3, 2)]


def test_a_world_of_one(rng: np.random.Generator) -> None:
    x = random_array(rng, (99,), "f64")
    with sk.comm(bootstrap="threads", rank=0, world_size=1, name="alone") as comm:
        assert np.array_equal(comm.allreduce(x), x)
        assert np.array_equal(comm.allgather(x), x[None])
        comm.barrier()


def test_empty_arrays(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        assert comm.allreduce(np.empty((0, 3), np.float32)).shape == (0, 3)
        assert comm.allgather(np.empty((0,), np.float32)).shape == (2, 0)

    ranks(2, body)
