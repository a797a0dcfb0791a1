"""Communicators on a GPU, seen from Python: all operations, and streams.

The GPU is a fake (fake_gpu.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from conftest import run_ranks
from fake_gpu import FakeGpus, is_poisoned, on_gpu, page_examples
from oracle import DTYPES, assert_close, random_array, reduced

Ranks = Callable[..., list[Any]]
RANKS = 2
_WAIT_S = 0.2


def test_what_a_communicator_says(gpu_ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        assert comm.device == "cuda:0"
        assert "cuda:0" in repr(comm)
        comm.barrier()
        comm.synchronize()
        assert comm.info()["calls"] == 1

    gpu_ranks(RANKS, body)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64", "i32"])
@pytest.mark.parametrize("count", [1, 127, 4099])
def test_collectives(
    gpu_ranks: Ranks, gpus: FakeGpus, rng: np.random.Generator, count: int, dtype: str
) -> None:
    parts = [random_array(rng, (RANKS * count,), dtype) for _ in range(RANKS)]
    total = reduced(parts, "sum")

    def body(comm: sk.Comm) -> dict[str, np.ndarray]:
        x = gpus.array(parts[comm.rank])
        kind = DTYPES[dtype]
        outs = {
            "allreduce": gpus.empty((RANKS * count,), kind),
            "allgather": gpus.empty((RANKS, RANKS * count), kind),
            "reduce_scatter": gpus.empty((count,), kind),
            "broadcast": gpus.empty((RANKS * count,), kind),
        }
        assert comm.allreduce(x, out=outs["allreduce"]) is outs["allreduce"]
        comm.allgather(x, outs["allgather"])
        comm.reduce_scatter(x, "sum", outs["reduce_scatter"])
        comm.broadcast(x, RANKS - 1, outs["broadcast"])
        comm.barrier()
        comm.allreduce(x, out=x)
        comm.synchronize()
        found = {name: out.memory.view(kind).copy() for name, out in outs.items()}
        return {**found, "in place": x.memory.view(kind).copy()}

    results = gpu_ranks(RANKS, body)
    for rank, got in enumerate(results):
        own = slice(rank * count, (rank + 1) * count)
        assert_close(got["allreduce"], total, dtype)
        assert_close(got["in place"], total, dtype)
        assert_close(got["reduce_scatter"], total[own], dtype)
        assert got["allgather"].tobytes() == np.stack(parts).tobytes()
        assert got["broadcast"].tobytes() == parts[-1].tobytes()
        assert got["allreduce"].tobytes() == results[0]["allreduce"].tobytes()


@pytest.mark.parametrize("op", ["prod", "min", "max", "avg"])
def test_reductions(gpu_ranks: Ranks, gpus: FakeGpus, rng: np.random.Generator, op: str) -> None:
    parts = [random_array(rng, (3, 67), "f32") for _ in range(3)]

    def body(comm: sk.Comm) -> np.ndarray:
        out = gpus.empty((3, 67), np.float32)
        comm.allreduce(gpus.array(parts[comm.rank]), op, out)
        comm.synchronize()
        return out.memory.copy()

    for got in gpu_ranks(3, body):
        assert_close(got, reduced(parts, op), "f32")


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 65), (130, 136, 72)])
def test_allreduce_gemm(
    gpu_ranks: Ranks,
    gpus: FakeGpus,
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    dtype: str,
) -> None:
    """Whole numbers so small that every sum of theirs is exact in every type."""
    m, n, k = shape
    a = [rng.integers(-2, 3, (m, k)).astype(DTYPES[dtype]) for _ in range(RANKS)]
    b = [rng.integers(-1, 2, (k, n)).astype(DTYPES[dtype]) for _ in range(RANKS)]
    exact = sum(x.astype(np.float64) @ y.astype(np.float64) for x, y in zip(a, b, strict=True))
    assert np.abs(exact).max() <= 256

    def body(comm: sk.Comm) -> list[np.ndarray]:
        x, y = gpus.array(a[comm.rank]), gpus.array(b[comm.rank])
        same, wide = gpus.empty((m, n), DTYPES[dtype]), gpus.empty((m, n), np.float32)
        assert comm.allreduce_gemm(x, y, same) is same
        comm.allreduce_gemm(x, y, wide, out_dtype="f32")
        comm.synchronize()
        return [same.memory.view(DTYPES[dtype]).astype(np.float64), wide.memory.copy()]

    for same, wide in gpu_ranks(RANKS, body):
        np.testing.assert_array_equal(same, exact)
        np.testing.assert_array_equal(wide, exact)


def test_layouts(gpu_ranks: Ranks, gpus: FakeGpus, rng: np.random.Generator) -> None:
    m, n, k = 61, 45, 83
    a = [rng.integers(-4, 5, (m, k)).astype(np.float32) for _ in range(RANKS)]
    b = [rng.integers(-4, 5, (k, n)).astype(np.float32) for _ in range(RANKS)]
    exact = sum(x @ y for x, y in zip(a, b, strict=True))

    def body(comm: sk.Comm) -> None:
        x, y = a[comm.rank], b[comm.rank]
        wide_x = gpus.array(np.pad(x, ((0, 0), (0, 9)), constant_values=np.nan)).memory[:, :k]
        x_t, y_t = gpus.array(x.T), gpus.array(y.T)
        room = gpus.empty((m, n + 7), np.float32).memory
        before = room.tobytes()
        for first, second, options in (
            (on_gpu(wide_x), gpus.array(y), {}),  # Rows that lie apart.
            (on_gpu(x_t.memory.T), on_gpu(y_t.memory.T), {}),  # Transposed views.
            (x_t, y_t, {"transpose_a": True, "transpose_b": True}),
        ):
            room[...] = np.frombuffer(before, np.float32).reshape(room.shape)
            comm.allreduce_gemm(first, second, on_gpu(room[:, :n]), **options)
            comm.synchronize()
            np.testing.assert_array_equal(room[:, :n], exact)
            gaps = np.frombuffer(before, np.uint32).reshape(room.shape)[:, n:]
            np.testing.assert_array_equal(room.view(np.uint32)[:, n:], gaps)

    gpu_ranks(RANKS, body)


def test_plans(gpu_ranks: Ranks, gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> None:
        plan = comm.plan("allreduce", dtype="f32", count=500, op="max")
        sk.check_plan(plan.dump())
        stream = gpus.stream(0)
        x = gpus.array(np.arange(500, dtype=np.float32) * (comm.rank + 1))
        for _ in range(2):
            out = gpus.empty((500,), np.float32)
            plan.run(x, out, stream=stream)
            comm.synchronize(stream=stream)
            np.testing.assert_array_equal(out.memory, np.arange(500) * RANKS)
        assert x.streams == [stream] * 2
        comm.plan("barrier").run(stream=stream)
        comm.synchronize()

    gpu_ranks(RANKS, body)


def test_packed_weights(gpu_ranks: Ranks, gpus: FakeGpus, rng: np.random.Generator) -> None:
    m, n, k = 20, 35, 41
    a = [rng.integers(-4, 5, (m, k)).astype(np.float32) for _ in range(RANKS)]
    b = [rng.integers(-4, 5, (k, n)).astype(np.float32) for _ in range(RANKS)]

    def body(comm: sk.Comm) -> np.ndarray:
        weights = gpus.array(b[comm.rank].T)
        packed = comm.pack(weights, transpose=True)
        assert packed.shape == (k, n) and weights.streams == [1] and weights.released == 1
        weights.memory[...] = np.nan
        out, stream = gpus.empty((m, n), np.float32), gpus.stream(0)
        comm.allreduce_gemm(gpus.array(a[comm.rank]), packed, out, stream=stream)
        comm.synchronize()
        return out.memory.copy()

    for got in gpu_ranks(RANKS, body):
        np.testing.assert_array_equal(got, sum(x @ y for x, y in zip(a, b, strict=True)))


def test_a_trace(gpu_ranks: Ranks, gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> list[dict[str, Any]]:
        x = gpus.array(np.ones(4097, np.float32))
        with comm.trace() as trace:
            comm.allreduce(x, out=x)
            comm.synchronize()
        with pytest.raises(sk.UnsupportedError, match="join their trace.events"):
            trace.gather()
        return trace.events

    for rank, events in enumerate(gpu_ranks(RANKS, body)):
        assert events and {event["pid"] for event in events} == {rank}


# ---- streams ----


class TorchStream:
    """As torch's."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class ProtocolStream:
    """As cuda.core's, CuPy's and others'."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


@pytest.mark.parametrize("kind", [int, TorchStream, ProtocolStream])
def test_a_call_runs_on_its_stream(
    gpu_ranks: Ranks, gpus: FakeGpus, kind: Callable[[int], Any]
) -> None:
    """One rank's stream is held, so nobody's output is there before it goes on."""

    def body(comm: sk.Comm) -> None:
        handle = gpus.stream(0)
        x = gpus.array(np.full(300, comm.rank + 1, np.float32))
        out = gpus.empty((300,), np.float32)
        hold = gpus.hold(handle) if comm.rank == 1 else None
        comm.barrier()
        comm.synchronize()
        comm.allreduce(x, out=out, stream=kind(handle))
        assert x.streams == [handle] and out.streams == [handle]
        comm.synchronize(stream=0)  # Where it would run if nobody looked at `stream`.
        with pytest.raises(sk.TimeoutError, match="still had work"):
            comm.synchronize(stream=kind(handle), timeout=_WAIT_S)
        assert is_poisoned(out)
        assert comm.info()["over"] == 0
        with pytest.raises(sk.TimeoutError):  # Without an argument: wherever calls went.
            comm.synchronize(timeout=_WAIT_S)
        gate.wait(30)
        if hold is not None:
            gpus.open(hold)
        comm.synchronize()
        assert np.all(out.memory == 3)

    gate = threading.Barrier(RANKS)
    gpu_ranks(RANKS, body)


def test_names_of_the_default_stream(gpu_ranks: Ranks, gpus: FakeGpus) -> None:
    """DLPack has 1 for it; CUDA 0 and 1."""

    def body(comm: sk.Comm) -> None:
        x = gpus.array(np.ones(9, np.float32))
        for stream in (None, 0, 1, TorchStream(0), ProtocolStream(1)):
            out = gpus.empty((9,), np.float32)
            comm.allreduce(x, out=out, stream=stream)
            assert list(comm._place.batches) == [0]  # One stream, however it is called.
            comm.synchronize(stream=stream)
            assert np.all(out.memory == RANKS)
        assert x.streams == [1] * 5

    gpu_ranks(RANKS, body)


# ---- the end ----


def test_an_abort_reaches_every_rank(gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> None:
        x = gpus.array(np.ones(5, np.float32))
        comm.allreduce(x, out=x)
        if comm.rank == 0:
            comm.abort("enough")
        comm.allreduce(x, out=x)

    for failure in run_ranks(RANKS, body, device="cuda:0"):
        assert isinstance(failure, sk.AbortedError) and "enough" in str(failure)


def test_the_pages_example(gpus: FakeGpus) -> None:
    """The one of docs/gpu-python.md that needs no torch; test_torch_ops.py runs the others."""
    (example,) = [text for text in page_examples() if "torch" not in text]
    before = gpus.launches()
    exec(compile(example, "docs/gpu-python.md", "exec"), {})
    assert gpus.launches() > before
