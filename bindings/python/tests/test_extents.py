"""No call touches memory that is not its operands': results, spans, and exporters that lie."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from exporter import FLOAT, Exporter
from libsk import _collectives, _core
from libsk._plan import kinds

ONE = 0x3F80
"""The bits of 1 in bf16."""

# Each of them once wrote behind an array that libsk had made too small.
_PROGRAMS = {
    "product": """
a = np.full((256, 256), 0x3F80, np.uint16)
for _ in range(50):
    result = comm.allreduce_gemm(a, a, dtype="bf16", out_dtype="f32")
    assert result.dtype == np.float32 and np.all(result == 256)
""",
    "plan of a product": """
a = np.full((256, 256), 0x3F80, np.uint16)
plan = comm.plan("allreduce_gemm", dtype="bf16", out_dtype="f32", m=256, n=256, k=256)
weights = comm.pack(a, dtype="bf16")
for _ in range(50):
    result = plan.run(a, weights=weights, dtype="bf16")
    assert result.dtype == np.float32 and np.all(result == 256)
""",
    "plan of a sum with another type": """
x = np.ones(65536)
for _ in range(50):
    try:
        comm.plan("allreduce", dtype="f64", out_dtype="f32", count=x.size).run(x)
    except sk.InvalidArgumentError as error:
        assert "out_dtype is f32" in str(error)
    else:
        raise AssertionError("a sum has the type of what is added")
""",
}


@pytest.mark.parametrize("program", _PROGRAMS.values(), ids=_PROGRAMS)
def test_a_new_result_has_room(program: str) -> None:
    start = "import libsk as sk, numpy as np\n"
    start += "comm = sk.Comm(bootstrap='threads', rank=0, world_size=1, name='room')\n"
    done = subprocess.run(
        [sys.executable, "-c", start + program],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def comm() -> Iterator[sk.Comm]:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="extents") as made:
        yield made


_F32, _SUM = 1, 1
_COUNT = 12
_KINDS = {"product": "allreduce_gemm", "gathered product": "allgather_gemm"}

Span = tuple[int, int]


def _plan(handle: Any, kind: str) -> Any:
    of = kinds()[_KINDS.get(kind, kind)]
    op = _SUM if kind in ("allreduce", "reduce_scatter") else 0
    sizes = {"m": 3, "n": 4, "k": 4} if "product" in kind else {"count": _COUNT, "root": 0}
    fields = {**sizes, "op": op, "kind": of.number, "dtype": _F32}
    return _core.Plan(handle, fields, *of.extents((_F32, _F32)))


def _vector(handle: Any, name: str, x: Span, out: Span, count: int = _COUNT) -> None:
    of = getattr(_collectives, f"_{name}")
    number = _SUM if name in ("allreduce", "reduce_scatter") else 0
    of.know()
    of.core.call(handle, x, out, count, _F32, number, None, 0, 0)


def _matrix(span: Span, rows: int = 3, row_step: int = 4) -> Any:
    return (span, _F32, rows, 4, row_step)


def _product(handle: Any, a: Span, b: Span, c: Span, name: str = "allreduce_gemm") -> None:
    of = getattr(_collectives, f"_{name}")
    of.know()
    of.core.core.call(handle, [_matrix(a), _matrix(b, rows=4), _matrix(c)], 0, 0, 0)


def _gathered_product(handle: Any, a: Span, b: Span, c: Span) -> None:
    _product(handle, a, b, c, "allgather_gemm")


ROOM = (0, 1 << 20)  # Never reached: the other operand is refused before.
_CALLS: dict[str, tuple[int, Callable[[Any, Span], Any]]] = {
    "allreduce x": (48, lambda h, s: _vector(h, "allreduce", s, ROOM)),
    "allreduce out": (48, lambda h, s: _vector(h, "allreduce", ROOM, s)),
    "allgather x": (48, lambda h, s: _vector(h, "allgather", s, ROOM)),
    "allgather out": (48, lambda h, s: _vector(h, "allgather", ROOM, s)),
    "reduce_scatter x": (48, lambda h, s: _vector(h, "reduce_scatter", s, ROOM)),
    "reduce_scatter out": (48, lambda h, s: _vector(h, "reduce_scatter", ROOM, s)),
    "broadcast x": (48, lambda h, s: _vector(h, "broadcast", s, ROOM)),
    "broadcast out": (48, lambda h, s: _vector(h, "broadcast", ROOM, s)),
    "send x": (48, lambda h, s: _vector(h, "send", s, (0, 0))),
    "recv out": (48, lambda h, s: _vector(h, "recv", (0, 0), s)),
    "product a": (48, lambda h, s: _product(h, s, ROOM, ROOM)),
    "product b": (64, lambda h, s: _product(h, ROOM, s, ROOM)),
    "product out": (48, lambda h, s: _product(h, ROOM, ROOM, s)),
    "gathered product out": (48, lambda h, s: _gathered_product(h, ROOM, ROOM, s)),
    "pack b": (48, lambda h, s: _core.Packed(h, _matrix(s), 0)),
    "pack b, rows apart": (96, lambda h, s: _core.Packed(h, _matrix(s, row_step=10), 0)),
    "plan of allreduce x": (48, lambda h, s: _plan(h, "allreduce").run(s, None, ROOM, 0, 0)),
    "plan of allreduce out": (48, lambda h, s: _plan(h, "allreduce").run(ROOM, None, s, 0, 0)),
    "plan of allgather out": (48, lambda h, s: _plan(h, "allgather").run(ROOM, None, s, 0, 0)),
    "plan of scatter x": (48, lambda h, s: _plan(h, "reduce_scatter").run(s, None, ROOM, 0, 0)),
    "plan of broadcast out": (48, lambda h, s: _plan(h, "broadcast").run(ROOM, None, s, 0, 0)),
    "plan of a product x": (48, lambda h, s: _plan(h, "product").run(s, None, ROOM, 0, 0)),
    "plan of a product out": (48, lambda h, s: _plan(h, "product").run(ROOM, None, s, 0, 0)),
    "plan of a gathered product x": (
        48,
        lambda h, s: _plan(h, "gathered product").run(s, None, ROOM, 0, 0),
    ),
    "plan of a gathered product out": (
        48,
        lambda h, s: _plan(h, "gathered product").run(ROOM, None, s, 0, 0),
    ),
}


@pytest.mark.parametrize("name", _CALLS)
def test_a_span_is_held_against_the_call(comm: sk.Comm, name: str) -> None:
    """Method: the address is one that nobody may touch, so a check that is missing crashes or is
    answered by libsk itself, which knows no sizes."""
    needed, call = _CALLS[name]
    what = name.split(",")[0].split()[-1]
    with pytest.raises(sk.InternalError, match=rf"of {what}, which has {needed - 1} bytes"):
        call(comm._handle, (16, needed - 1))


def test_a_span_of_a_count_that_overflows(comm: sk.Comm) -> None:
    for count in (2**62, 2**63 - 1):
        with pytest.raises(sk.InternalError, match="which has 48 bytes"):
            _vector(comm._handle, "allreduce", (16, 48), (16, 48), count)


class Liar(Exporter):
    """Exports what an honest library does not."""

    def __init__(self, memory: np.ndarray, **lies: Any) -> None:
        super().__init__(memory, FLOAT)
        tensor = self._managed.tensor
        for name, value in lies.items():
            setattr(tensor, name, value)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


_SHAPE = ctypes.POINTER(ctypes.c_int64)
_LIES: dict[str, tuple[dict[str, Any], str]] = {
    "null": ({"data": None}, "x exports no memory through DLPack: its address is null"),
    "no shape": ({"shape": _SHAPE()}, "x cannot be exported through DLPack: .* no shape"),
    "dimensions": ({"ndim": -1}, "x cannot be exported through DLPack: .* no shape"),
    "negative": ({"shape": (ctypes.c_int64 * 1)(-6)}, r"x exports shape \(-6,\)"),
    "huge": ({"shape": (ctypes.c_int64 * 1)(2**62)}, "which no memory has"),
    "lanes": ({"lanes": 4}, "4 lanes"),
}


@pytest.mark.parametrize("lie", _LIES)
def test_an_exporter_that_lies(comm: sk.Comm, lie: str) -> None:
    changes, sentence = _LIES[lie]
    memory = np.arange(6, dtype=np.float32)
    liar = Liar(memory, **changes)
    with pytest.raises(sk.InvalidArgumentError, match=sentence):
        comm.allreduce(liar)
    assert liar.released == 1
    assert np.array_equal(comm.allreduce(memory), memory)


def test_an_exporter_on_another_device_than_it_says(comm: sk.Comm) -> None:
    class There(Exporter):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    there = There(np.zeros(6, np.float32), FLOAT, device=(2, 0))
    with pytest.raises(sk.InvalidArgumentError, match=r"device \(2, 0\), but says it is on \(1, 0"):
        comm.allreduce(there)


class _Copies:
    """NumPy's memory through DLPack 1.0, as a copy of it."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **how: Any) -> Any:
        return self.memory.__dlpack__(max_version=(1, 0), copy=True)


def test_a_copy_is_no_output(comm: sk.Comm) -> None:
    memory = np.arange(6, dtype=np.float32)
    try:
        _Copies(memory).__dlpack__()
    except TypeError:
        pytest.skip("this NumPy exports no copies")
    assert np.array_equal(comm.allreduce(_Copies(memory)), memory)
    with pytest.raises(sk.InvalidArgumentError, match="out exports a copy of itself"):
        comm.allreduce(memory, out=_Copies(np.zeros(6, np.float32)))


def test_weights_of_another_shape(comm: sk.Comm) -> None:
    plan = comm.plan("allreduce_gemm", dtype="f32", m=3, n=4, k=4)
    a = np.ones((3, 4), np.float32)
    for shape in ((4, 3), (3, 4), (5, 4), (4, 400)):
        with pytest.raises(sk.Error):
            plan.run(a, weights=comm.pack(np.ones(shape, np.float32)))
    with pytest.raises(sk.Error):
        plan.run(a, weights=comm.pack(np.ones((4, 4))))
    assert np.all(plan.run(a, weights=comm.pack(np.ones((4, 4), np.float32))) == 4)
