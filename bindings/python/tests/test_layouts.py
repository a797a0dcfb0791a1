"""Results reach the caller's array in whatever layout it has, or the call is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from exporter import FLOAT, Exporter
from numpy.lib.stride_tricks import as_strided

Ranks = Callable[..., list[Any]]
SHAPE = (3, 4)
POISON = 0xA5


def _poisoned(size: int) -> np.ndarray:
    return np.full(size, POISON, np.uint8)


def _field(offset: int, itemsize: int) -> np.ndarray:
    """The field of a structured array, as it lies in memory that was poisoned."""
    kind = np.dtype({"names": ["v"], "formats": ["<f4"], "offsets": [offset], "itemsize": itemsize})
    return _poisoned(12 * itemsize).view(kind).reshape(SHAPE)["v"]


def _odd() -> np.ndarray:
    return _poisoned(49)[1:].view(np.float32).reshape(SHAPE)


LAYOUTS: dict[str, Callable[[], np.ndarray]] = {
    "dense": lambda: _poisoned(48).view(np.float32).reshape(SHAPE),
    "odd address": _odd,
    "field of 5 bytes": lambda: _field(0, 5),
    "field at an odd offset": lambda: _field(1, 5),
    "field of 6 bytes": lambda: _field(2, 6),
    "field of 12 bytes": lambda: _field(4, 12),
    "fortran": lambda: _poisoned(48).view(np.float32).reshape(SHAPE[::-1]).T,
    "backwards": lambda: _poisoned(48).view(np.float32).reshape(SHAPE)[::-1, ::-1],
    "every other": lambda: _poisoned(192).view(np.float32).reshape(6, 8)[::2, ::2],
    "rows apart": lambda: _poisoned(96).view(np.float32).reshape(3, 8)[:, :4],
    "permuted": lambda: _poisoned(96).view(np.float32).reshape(4, 2, 3)[:, 1].T,
}


OPERATIONS: dict[str, Callable[[sk.Comm, np.ndarray, Any], Any]] = {
    "allreduce": lambda comm, x, out: comm.allreduce(x, out=out),
    "broadcast": lambda comm, x, out: comm.broadcast(x, 1, out),
    "allgather": lambda comm, x, out: comm.allgather(x[:, 0].copy(), out),
    "reduce_scatter": lambda comm, x, out: comm.reduce_scatter(np.concatenate([x, x]), out=out),
    "allreduce_gemm": lambda comm, x, out: comm.allreduce_gemm(x, np.eye(4, dtype="f4"), out),
    "plan": lambda comm, x, out: comm.plan("allreduce", count=12).run(x, out),
    "plan of a product": lambda comm, x, out: comm.plan("allreduce_gemm", m=3, n=4, k=4).run(
        x, out, weights=comm.pack(np.eye(4, dtype="f4"))
    ),
    "in place": lambda comm, x, out: (
        np.copyto(out, x),
        comm.allreduce(out, out=out),
    )[1],
}


def _pass_on(comm: sk.Comm, x: np.ndarray, out: Any) -> Any:
    if comm.rank == 0:
        comm.send(x, 1)
        return comm.recv(out, 1)
    got = comm.recv(out, 0)
    comm.send(x, 0)
    return got


OPERATIONS["recv"] = _pass_on


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_result_reaches_its_array(ranks: Ranks, operation: str, layout: str) -> None:
    call = OPERATIONS[operation]
    parts = [np.arange(12, dtype=np.float32).reshape(SHAPE) + 100 * rank for rank in range(2)]

    def body(comm: sk.Comm) -> tuple[np.ndarray, np.ndarray]:
        x, out = parts[comm.rank], LAYOUTS[layout]()
        if operation == "allgather":
            out = out[:2, :3]
        memory = out
        while isinstance(memory.base, np.ndarray):
            memory = memory.base
        apart = np.ones(memory.nbytes, bool)  # What is none of the array's elements.
        at = out.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        for index in np.ndindex(out.shape):
            start = at + sum(i * step for i, step in zip(index, out.strides, strict=True))
            apart[start : start + 4] = False
        wanted = call(comm, x, np.zeros(out.shape, np.float32))
        assert call(comm, x, out) is out
        assert np.all(memory.view(np.uint8)[apart] == POISON)
        return np.array(out), wanted

    for got, wanted in ranks(2, body):
        assert wanted.any() and np.array_equal(got, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_input_in_any_layout(ranks: Ranks, layout: str) -> None:
    def body(comm: sk.Comm) -> list[np.ndarray]:
        x = LAYOUTS[layout]()
        x[...] = np.arange(12).reshape(SHAPE)
        weights = comm.pack(x.T)
        return [
            comm.allreduce(x) / 2,
            comm.broadcast(x, 1),
            comm.allgather(x)[1],
            comm.allreduce_gemm(x, np.eye(4, dtype="f4")) / 2,
            comm.allreduce_gemm(np.eye(3, dtype="f4"), x) / 2,
            comm.allreduce_gemm(np.eye(4, dtype="f4"), weights).T / 2,
        ]

    for results in ranks(2, body):
        for got in results:
            assert np.array_equal(got, np.arange(12).reshape(SHAPE))


def test_numbers_and_arrays_without_dimensions(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        out = np.zeros((), np.float32)
        assert comm.allreduce(np.float32(3), out=out) is out and out == 6
        field = _poisoned(5).view([("a", "u1"), ("v", "<f4")])[0:1]["v"].reshape(())
        assert comm.allreduce(np.float32(3), out=field) is field and field == 6

    ranks(2, body)


_DENSE = np.zeros(SHAPE, np.float32)
_REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "zero strides": (lambda: as_strided(_DENSE, SHAPE, (0, 4)), "elements share memory"),
    "windows": (lambda: as_strided(np.zeros(8, "f4"), SHAPE, (4, 4)), "elements share memory"),
    "half an element": (lambda: as_strided(_DENSE, SHAPE, (8, 2)), "elements share memory"),
    "broadcast": (lambda: np.broadcast_to(_DENSE[0], SHAPE), "out is read-only"),
    "read-only": (lambda: np.frombuffer(bytes(48), "f4").reshape(SHAPE), "out is read-only"),
    "byte order": (lambda: np.zeros(SHAPE, ">f4"), "out has foreign byte order"),
    "masked": (lambda: np.ma.zeros(SHAPE, "f4"), "out is a masked array"),
    "number": (lambda: np.float32(1), "out is a float32"),
    "memoryview": (lambda: memoryview(bytearray(48)), "out is a memoryview"),
    "bytearray": (lambda: bytearray(48), "out is a bytearray"),
    "other shape": (lambda: np.zeros((4, 3), "f4"), r"out has shape \(4, 3\)"),
    "too short": (lambda: np.zeros((3, 3), "f4"), r"out has (shape \(3, 3\)|9 elements)"),
    "other type": (lambda: np.zeros(SHAPE), "out has dtype f64"),
    "half the type": (lambda: np.zeros(SHAPE, "f2"), "out has dtype f16"),
    "exported, zero strides": (
        lambda: Exporter(as_strided(_DENSE, SHAPE, (0, 4)), FLOAT),
        "elements share memory",
    ),
    "exported, endless": (
        lambda: Exporter(as_strided(_DENSE, (1 << 40, 4), (0, 4)), FLOAT),
        "elements share memory|out has (shape|4398046511104 elements)",
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
@pytest.mark.parametrize(
    "operation", [name for name in OPERATIONS if name[:4] not in ("in p", "recv")]
)
def test_an_output_that_is_refused(operation: str, case: str) -> None:
    """In a world of one, for the other ranks would wait."""
    make, sentence = _REFUSED[case]
    x = np.arange(12, dtype=np.float32).reshape(SHAPE)
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="refused") as comm:
        out, before = make(), _DENSE.copy()
        calls = {
            "broadcast": lambda: comm.broadcast(x, 0, out),
            "allgather": lambda: comm.allgather(x, out),
            "reduce_scatter": lambda: comm.reduce_scatter(x, out=out),
        }
        if operation == "plan" and case == "other shape":
            pytest.skip("a plan counts elements")
        if operation == "allreduce_gemm" and case.endswith("the type"):
            sentence = "f16"
        if operation == "allreduce_gemm" and case == "other type":
            sentence = "f64"
        with pytest.raises(sk.Error, match=sentence if operation != "allgather" else "^out "):
            calls.get(operation, lambda: OPERATIONS[operation](comm, x, out))()
        assert np.array_equal(_DENSE, before)
        assert np.array_equal(comm.allreduce(x), x)


def test_elements_that_lie_between_each_other(ranks: Ranks) -> None:
    """Steps of 16 and 12 bytes: no dimension lies within the other, and no two elements meet."""

    def body(comm: sk.Comm) -> None:
        x = np.arange(12, dtype=np.float32).reshape(SHAPE)
        memory = _poisoned(72)
        out = as_strided(memory.view(np.float32), SHAPE, (16, 12))
        starts = {16 * i + 12 * j for i in range(3) for j in range(4)}
        assert len(starts) == 12
        assert comm.allreduce(x, out=out) is out and np.array_equal(out, 2 * x)

    ranks(2, body)


def test_a_masked_input_is_refused() -> None:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="masked") as comm:
        masked = np.ma.masked_array(np.ones(3, "f4"), [True, False, False])
        for x in (masked, masked.astype("f8")):
            with pytest.raises(sk.InvalidArgumentError, match="x is a masked array"):
                comm.allreduce(x)


def test_a_subclass_that_says_otherwise() -> None:
    class Other(np.ndarray):
        shape = property(lambda self: (1000,))  # type: ignore[assignment]
        strides = property(lambda self: (1 << 20,))  # type: ignore[assignment]
        dtype = property(lambda self: np.dtype(np.float64))  # type: ignore[assignment]
        __array_interface__ = property(lambda self: {"data": (16, False)})

    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="subclass") as comm:
        x = np.arange(6, dtype=np.float32)
        assert np.array_equal(comm.allreduce(x.view(Other)), x)
        out = np.zeros(6, np.float32)
        comm.allreduce(x, out=out.view(Other))
        assert np.array_equal(out, x)


def test_a_type_that_was_given_is_held_against_an_exporter(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        with pytest.raises(sk.InvalidArgumentError, match="x has dtype f32, but dtype says bf16"):
            comm.allreduce(Exporter(np.ones(4, np.float32), FLOAT), dtype="bf16")
        comm.barrier()

    ranks(2, body)
